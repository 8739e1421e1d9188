"""RL-C10 on a CPU: copies between channels-first and channels-last images, told by strides."""

import pytest

from redline.roofline.sizes import is_channels_first, is_channels_last
from tests.support.events import Event, document, op
from tests.support.rules.matching import FP32, claimed_ns, described, matched, step

SHAPE, FIRST, LAST = [8, 16, 32, 32], [16384, 1024, 32, 1], [16384, 1, 512, 16]


def reading(name: str, at: float, dur: float, *strides: list[int]) -> Event:
    return op(name, at, dur, **(described(FP32, *[SHAPE] * len(strides)) | {"Input Strides": list(strides)}))


def test_c10_claims_conversions_and_operators_that_read_both_layouts() -> None:
    events = [
        step(0, 0, 1000),
        reading("aten::relu", 0, 500, LAST),
        reading("aten::copy_", 500, 100, FIRST, LAST),
        reading("aten::threshold_backward", 600, 50, FIRST, LAST),
    ]
    assert (
        claimed_ns(document(events), "RL-C10") == 200_000
    )  # 100 us, as long again, of which 50 us are the reader of both


def test_c10_leaves_copies_of_one_layout_alone() -> None:
    events = [step(0, 0, 1000), reading("aten::relu", 0, 500, LAST), reading("aten::copy_", 500, 100, LAST, LAST)]
    assert "RL-C10" not in matched(document(events))


@pytest.mark.parametrize(
    ("shape", "strides", "last", "first"),
    [
        ((8, 16, 32, 32), (16384, 1, 512, 16), True, False),
        ((8, 16, 32, 32), (16384, 1024, 32, 1), False, True),
        ((2, 4, 64, 8), (2048, 8, 32, 1), False, False),  # heads of attention
        ((8, 1, 32, 32), (1024, 1, 32, 1), False, False),  # one channel: both layouts are the same
    ],
)
def test_layouts_are_told_by_strides(shape: tuple[int, ...], strides: tuple[int, ...], last: bool, first: bool) -> None:
    assert (is_channels_last(shape, strides), is_channels_first(shape, strides)) == (last, first)
