"""All rules, in the order in which they claim time.

What happens at single moments claims first (loading, waiting, pauses), then launching as a whole, then what single
kernels could save: a cause that another one's fix would remove as well gets only what that one leaves.
"""

from redline.findings.rule import Rule
from redline.findings.rules import (
    b01,
    c02,
    c06,
    c07,
    c10,
    d01,
    d02,
    d03,
    h01,
    h02,
    h03,
    h04,
    h06,
    h07,
    h08,
    h09,
    h10,
    h11,
    h19,
    id01,
    id02,
    m01,
    n01,
    n02,
    n03,
    n04,
    n05,
    n06,
    n07,
    n11,
    n13,
    n17,
    p01,
    r06,
    r07,
    r08,
    s01,
)

RULES: tuple[Rule, ...] = (
    # single moments
    d01.RULE,
    d02.RULE,
    d03.RULE,
    h03.RULE,
    h04.RULE,
    h06.RULE,
    h09.RULE,
    h11.RULE,
    m01.RULE,
    h19.RULE,
    # launching
    id01.RULE,
    h01.RULE,
    h02.RULE,
    # kernels and copies
    n03.RULE,
    n04.RULE,
    c10.RULE,
    h07.RULE,
    h08.RULE,
    h10.RULE,
    c07.RULE,
    id02.RULE,
    c02.RULE,
    c06.RULE,
    b01.RULE,
    # communication: waiting for others, then transfer, with what can be left out or mended first
    p01.RULE,
    n13.RULE,
    n02.RULE,
    n11.RULE,
    n01.RULE,
    n05.RULE,
    n07.RULE,
    n06.RULE,
    n17.RULE,
    # remarks
    s01.RULE,
    r06.RULE,
    r07.RULE,
    r08.RULE,
)

_RECORDED_ONLY = (
    *(d01, d02, d03, h01, h02, h03, h04, h06, h07, h08, h09, h10, h11, h19, id01, id02, m01, n03, n04, n11),
    *(r06, r07, s01),
)
"""About what a program was seen to do. A plan draws its host as a gap and its links as fast as they are assumed to be,
so there these would only find the drawing."""
RULES_OF_PLANS = tuple(rule for rule in RULES if rule not in {module.RULE for module in _RECORDED_ONLY})


def rules_for(*, predicted: bool) -> tuple[Rule, ...]:
    """In order; for timelines that were measured, or that a plan predicted."""
    return RULES_OF_PLANS if predicted else RULES
