"""RL-C25: tensors are converted to another floating-point type and back."""

from tests.support.events import op
from tests.support.rules.kernels import copying, job
from tests.support.rules.matching import BF16, FP32, claimed_ns, described, found, matched


def test_c25_claims_conversions_to_and_back() -> None:
    data = job(
        *copying("aten::to", 300, types=(BF16, FP32)),
        op("aten::relu", 400, 200, **described(BF16, [64, 32])),
        *copying("aten::to", 600, types=(FP32, BF16)),
    )
    assert claimed_ns(data, "RL-C25") == 400_000  # and as much again for what reads each result
    (evidence,) = found(data)["RL-C25"].evidence
    assert evidence.values["conversions"] == 2
    assert evidence.values["converting_ns"] == 200_000


def test_c25_leaves_conversions_in_one_direction_alone() -> None:
    """As of inputs, or of a loss."""
    assert "RL-C25" not in matched(
        job(*(event for at in (300, 400, 500) for event in copying("aten::to", at, types=(BF16, FP32))))
    )


def test_c25_leaves_what_operators_convert_alone() -> None:
    """As autocast does, inside the operator that needs another type."""
    inside = [
        op("aten::linear", 295, 320, **described(FP32, [64, 32])),
        *copying("aten::to", 300, types=(BF16, FP32)),
        *copying("aten::to", 400, types=(FP32, BF16)),
    ]
    assert "RL-C25" not in matched(job(*inside))


def test_c25_leaves_numbers_that_are_no_floats_alone() -> None:
    whole = "long int"
    data = job(*copying("aten::to", 300, types=(whole, FP32)), *copying("aten::to", 400, types=(FP32, whole)))
    assert "RL-C25" not in matched(data)
