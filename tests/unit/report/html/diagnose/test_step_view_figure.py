"""A drawn step as rectangles: where they lie, what they say, and how gaps are told."""

from dataclasses import replace

import pytest

from redline.ledger.accounts import Account
from redline.ledger.rank.host_activity import HostActivity
from redline.ledger.rank.step_view import Band, Gap, Piece, StepView, StripLane
from redline.report.html.diagnose.step_view_figure import gap_sentence, left_out, step_view_figure

DOING = HostActivity(
    account=Account.HOST,
    kind="operator",
    name="aten::item",
    region="",
    site="src/train.py(42): loop",
    time_ns=5,
    times=1,
)
GAP = Gap(start_ns=0, end_ns=400_000, account=Account.HOST, doing=DOING, next_name="void at::native::gemm<float>")


def piece(start: int, end: int, **known: object) -> Piece:
    values = {"level": 0, "kind": "compute", "name": "gemm", "count": 1, **known}
    return Piece(start_ns=start, end_ns=end, **values)  # type: ignore[arg-type]


def lane(*pieces: Piece, device: int = 0, label: str = "") -> StripLane:
    return StripLane(device=device, stream=7 if device >= 0 else -1, thread="11", label=label, pieces=pieces)


def view(*lanes: StripLane, gaps: tuple[Gap, ...] = (GAP,)) -> StepView:
    return StepView(
        rank=0,
        number=1,
        label="",
        start_ns=0,
        length_ns=1_000_000,
        pixel_ns=500,
        bands=(
            Band(start_ns=0, end_ns=400_000, account=Account.HOST, low=0.0, high=1.0),
            Band(start_ns=400_000, end_ns=1_000_000, account=Account.MATH, low=0.0, high=0.25),
            Band(start_ns=400_000, end_ns=1_000_000, account=Account.QUEUE, low=0.25, high=1.0),
        ),
        lanes=lanes,
        gaps=gaps,
        idle_ns=400_000,
        more_streams=0,
        more_threads=0,
        more_pieces=0,
    )


def test_accounts_are_stacked_on_the_device() -> None:
    figure = step_view_figure(view())
    found = {boxes["colour"]: boxes for boxes in figure["boxes"]}
    assert figure["unit"] == "ms"
    assert list(found) == ["math", "host", "queue"]
    assert found["math"]["start"] == [0.4]
    assert found["math"]["length"] == [0.6]
    assert found["math"]["top"][0] == pytest.approx(found["queue"]["top"][0] + found["queue"]["height"][0], abs=2e-3)
    assert figure["texts"][found["math"]["hover"][0]] == "math: 25.0 % of 600.0 us"


def test_lanes_lie_below_each_other_and_levels_within_them() -> None:
    stream = lane(piece(0, 500_000))
    thread = lane(
        piece(0, 9, level=1, kind="operator"), piece(0, 9, level=2, kind="call"), device=-1, label="main <thread>"
    )
    figure = step_view_figure(view(stream, thread))
    assert [caption["text"] for caption in figure["captions"]] == ["device, by account", "stream 7", "main <thread>"]
    tops = {boxes["colour"]: boxes["top"][0] for boxes in figure["boxes"]}
    assert tops["host"] < tops["compute"] < tops["operator"] < tops["call"] < figure["height"]


def test_kernels_have_a_short_name_on_them_and_the_whole_one_under_the_pointer() -> None:
    figure = step_view_figure(view(lane(piece(0, 500_000, name="void cutlass::gemm::Kernel<float>(int)"))))
    (boxes,) = (one for one in figure["boxes"] if one["colour"] == "compute")
    assert [figure["texts"][index] for index in boxes["label"]] == ["Kernel"]
    assert figure["texts"][boxes["hover"][0]].startswith("void cutlass::gemm::Kernel<float>(int)\n500.0 us")


def test_several_short_ones_say_how_many() -> None:
    crowd = piece(0, 9_000, name="", count=37)
    figure = step_view_figure(view(lane(crowd)))
    (boxes,) = (one for one in figure["boxes"] if one["colour"] == "compute")
    assert boxes["label"] == [-1]
    assert figure["texts"][boxes["hover"][0]] == "37 spans too short to draw, within 9.000 us"


def test_streams_of_several_devices_say_which() -> None:
    figure = step_view_figure(view(lane(piece(0, 9)), lane(piece(0, 9), device=1)))
    assert [caption["text"] for caption in figure["captions"][1:]] == ["stream 7 of device 0", "stream 7 of device 1"]


def test_numbers_of_near_gaps_are_put_above_each_other() -> None:
    near = tuple(replace(GAP, start_ns=start, end_ns=start + 1000) for start in (0, 10_000, 500_000))
    marks = step_view_figure(view(gaps=near))["marks"]
    assert [mark["number"] for mark in marks] == [1, 2, 3]
    assert marks[1]["y"] < marks[0]["y"] == marks[2]["y"]


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        (GAP, "400.0 us host: aten::item (src/train.py(42): loop); then gemm<float>"),
        (replace(GAP, next_name=""), "400.0 us host: aten::item (src/train.py(42): loop)"),
        (replace(GAP, doing=None, account=Account.QUEUE), "400.0 us queue; then gemm<float>"),
        (replace(GAP, doing=replace(DOING, site=""), next_name=""), "400.0 us host: aten::item"),
        (replace(GAP, doing=replace(DOING, site="", region="fwd"), next_name=""), "400.0 us host: aten::item (fwd)"),
    ],
)
def test_what_is_said_of_a_gap(gap: Gap, said: str) -> None:
    assert gap_sentence(gap) == said


def test_what_is_left_out_is_said() -> None:
    drawn = view()
    assert left_out(drawn) == ""
    cut = replace(drawn, more_streams=1, more_threads=2, more_pieces=1234)
    assert left_out(cut) == "1 more stream, 2 more threads, 1,234 shorter spans"
