"""Words that must not say more than is known: lower bounds, and shares of a handful."""

import pytest

from redline.findings.thresholds import Outcome, QuantityValue, parse
from redline.report.diagnose.loss_messages import short_kernels
from redline.report.diagnose.thresholds_text import crossed_line


@pytest.mark.parametrize(("is_least", "said"), [(True, "idle is at least 30.0 %"), (False, "idle is 30.0 %")])
def test_a_lower_bound_is_called_one(is_least: bool, said: str) -> None:
    outcome = Outcome(threshold=parse("idle>20%"), reading=QuantityValue(value=0.3, is_least=is_least), crossed=True)
    assert crossed_line(outcome) == f"threshold idle>20% is crossed: {said}"


def test_a_share_of_few_kernels_says_nothing() -> None:
    assert short_kernels(19, 19) == ""
    assert short_kernels(40, 10) == ""
    assert short_kernels(40, 40).startswith("100.0 % of 40 kernels are shorter")
