"""RL-C19: one product with much of the kernel time, far from what the device could do."""

import pytest

from tests.support.events import document
from tests.support.rules.matching import BF16, calls, claimed_ns, described, found, machine, matched

PRODUCT = ("aten::mm", described(BF16, [1024, 1024], [1024, 1024]))  # 2.147 GFLOP: 21.5 us at 100 TFLOP/s
DEVICE = machine(bf16=100, gb_per_s=10_000)


def test_c19_claims_all_beyond_the_roof() -> None:
    data = document(calls(PRODUCT, PRODUCT))
    assert claimed_ns(data, "RL-C19", DEVICE) == pytest.approx(2 * (100_000 - 21_475), abs=2)
    first, _ = found(data, machine=DEVICE)["RL-C19"].evidence
    assert first.values["roof_share"] == pytest.approx(0.2147, abs=0.001)
    assert first.values["shapes"] == "1024x1024, 1024x1024"


def test_c19_is_silent_near_the_roof_and_on_unknown_devices() -> None:
    assert "RL-C19" not in matched(document(calls(PRODUCT, PRODUCT, us=40)), DEVICE)
    assert "RL-C19" not in matched(document(calls(PRODUCT, PRODUCT)))


def test_c19_leaves_a_small_share_alone() -> None:
    other = ("aten::mystery", described(BF16, [1024, 1024]))
    assert "RL-C19" not in matched(document(calls(PRODUCT, *[other] * 7)), DEVICE)
