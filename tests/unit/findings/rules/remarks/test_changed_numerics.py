"""RL-R08, a remark: a fix that was found changes the numbers, so its result is to be compared."""

from tests.support.events import document
from tests.support.rules.matching import FP32, calls, described, found, machine


def test_r08_names_the_findings_whose_fix_changes_numbers() -> None:
    data = document(calls(("aten::mm", described(FP32, [64, 64], [64, 64]))))
    codes = found(data, machine=machine(fp32=1, bf16=10))
    assert codes["RL-R08"].evidence[0].values == {"codes": "RL-C02"}
    assert codes["RL-R08"].bound_ns == 0


def test_r08_is_silent_where_no_fix_does() -> None:
    data = document(calls(("aten::relu", described(FP32, [64, 64])), ("aten::relu", described(FP32, [64, 64]))))
    codes = found(data)
    assert "RL-B01" in codes
    assert "RL-R08" not in codes
