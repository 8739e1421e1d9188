"""RL-ID02: decode steps read all weights for a few tokens, at nearly the full bandwidth of the memory."""

import pytest

from tests.support.events import document, region
from tests.support.rules.matching import BF16, calls, claimed_ns, described, found, machine, matched
from tests.support.rules.serving import DECODE, PREFILL

WEIGHTS = described(BF16, [4, 4096], [4096, 4096])
# The bytes of the product in 80 us, its arithmetic in less than one.
READING_BYTES = 2 * (4096 * 4096 + 2 * 4 * 4096)


def decoding(label: str = DECODE, us: float = 500) -> bytes:
    return document([region(label, 0, 600), *calls(("aten::mm", WEIGHTS), us=us)[1:]])


def test_id02_claims_what_weights_of_four_bits_do_not_need() -> None:
    near = machine(gb_per_s=READING_BYTES / 400e-6 / 1e9, bf16=1000)
    assert claimed_ns(decoding(), "RL-ID02", near) == 400_000  # 500 us, less a quarter of 400
    (evidence,) = found(decoding(), machine=near)["RL-ID02"].evidence
    assert evidence.values == {
        "read_bytes": READING_BYTES,
        "bandwidth_share": pytest.approx(0.8),
        "product_share": pytest.approx(500 / 593),  # without 7 us of queue before it
    }


def test_id02_is_silent_far_from_the_roof_in_other_phases_and_where_products_are_few() -> None:
    near = machine(gb_per_s=READING_BYTES / 400e-6 / 1e9, bf16=1000)
    far = machine(gb_per_s=READING_BYTES / 250e-6 / 1e9, bf16=1000)
    assert "RL-ID02" not in matched(decoding(), far)
    assert "RL-ID02" not in matched(decoding(PREFILL), near)
    assert "RL-ID02" not in matched(decoding(us=250), near)
    assert "RL-ID02" not in matched(decoding(), None)
