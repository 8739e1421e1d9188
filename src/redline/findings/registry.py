"""All rules, in the order in which they claim time.

What happens at single moments claims first (loading, waiting, pauses), then launching as a whole, then what single
kernels could save: a cause that another one's fix would remove as well gets only what that one leaves.
"""

from redline.findings.rule import Rule
from redline.findings.rules import c10, d01, h01

RULES: tuple[Rule, ...] = (
    # single moments
    d01.RULE,
    # launching
    h01.RULE,
    # kernels
    c10.RULE,
    # communication
    # remarks
)
