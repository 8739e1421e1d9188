"""RL-C06: matrix products of too few rows: reading the weights takes longer than multiplying with them."""

from typing import Any

import pytest

from tests.support.events import Event, document, region
from tests.support.rules.matching import BF16, calls, claimed_ns, described, found, machine, matched

FEW = described(BF16, [8, 4096], [4096, 4096])
SWIFT = machine(bf16=1000, gb=80)


def reserving(share: float) -> Event:
    args = {"Bytes": 1, "Total Allocated": 1, "Total Reserved": round(share * 80e9), "Device Id": 0, "Device Type": 1}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1, "ts": 5, "args": args}


def test_c06_claims_what_more_rows_would_not_need() -> None:
    data = document(calls(("aten::mm", FEW)))
    assert claimed_ns(data, "RL-C06", SWIFT) == 99_732  # 100 us, less 2 * 8 * 4096**2 FLOPs at 1000 TFLOP/s
    first, second = found(data, machine=SWIFT)["RL-C06"].evidence
    assert first.values["rows"] == "8"
    assert "not recorded" in second.message


def test_c06_says_how_much_memory_is_free() -> None:
    events = [*calls(("aten::mm", FEW)), reserving(0.5)]
    assert found(document(events), machine=SWIFT)["RL-C06"].evidence[1].values == {"free_share": pytest.approx(0.5)}


def test_c06_is_silent_without_free_memory() -> None:
    assert "RL-C06" not in matched(document([*calls(("aten::mm", FEW)), reserving(0.9)]), SWIFT)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(described(BF16, [4096, 4096], [4096, 4096]), id="enough rows"),
        pytest.param(described(BF16, [4096, 4096], [4096, 8]), id="few features, not few rows"),
    ],
)
def test_c06_is_silent_with_enough_rows(args: dict[str, Any]) -> None:
    assert "RL-C06" not in matched(document(calls(("aten::mm", args))), SWIFT)


def test_c06_is_silent_for_batched_products_and_serving_engines() -> None:
    batched = described(BF16, [64, 8, 512], [64, 512, 512])
    assert "RL-C06" not in matched(document(calls(("aten::bmm", batched))), SWIFT)
    serving = [region("step[DECODE bs=8]", 0, 1000), *calls(("aten::mm", FEW))[1:]]
    assert "RL-C06" not in matched(document(serving), SWIFT)


def test_c06_leaves_a_small_share_alone() -> None:
    assert "RL-C06" not in matched(document(calls(("aten::mm", FEW), us=40)), SWIFT)
