"""RL-C12: copies that the program asks for and that change nothing."""

from tests.support.events import op
from tests.support.rules.kernels import copying, job
from tests.support.rules.matching import BF16, FP32, claimed_ns, described, found, matched


def test_c12_claims_clones() -> None:
    data = job(*copying("aten::clone", 300), *copying("aten::to", 400))
    assert claimed_ns(data, "RL-C12") == 300_000  # and as much again for what reads the last copy
    (evidence,) = found(data)["RL-C12"].evidence
    assert evidence.values["copies"] == 2


def test_c12_leaves_conversions_alone() -> None:
    assert "RL-C12" not in matched(job(*copying("aten::to", 300, types=(BF16, FP32))))
    assert "RL-C12" not in matched(job(*copying("aten::contiguous", 300, strides=[[32, 1], [1, 64]])))


def test_c12_leaves_copies_inside_other_operators_alone() -> None:
    inside = [op("aten::reshape", 295, 120, **described(FP32, [64, 32])), *copying("aten::clone", 300)]
    assert "RL-C12" not in matched(job(*inside))
