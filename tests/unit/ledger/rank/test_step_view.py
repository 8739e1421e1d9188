"""One step as a picture: every account has its area, nothing is too fine or too much, gaps say what the host did."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from redline.ledger.accounts import ACCOUNTS, Account, place
from redline.ledger.job.combine import combine
from redline.ledger.job.outlier_ranks import typical_place
from redline.ledger.rank import step_view as strip_module
from redline.ledger.rank.digest import digest_of
from redline.ledger.rank.rank_analysis import RankAnalysis, analysis_of
from redline.ledger.rank.step_view import MOST_BANDS, PIXELS, StepView, step_view_of
from redline.timeline.intervals import Intervals
from redline.verbs.diagnose import diagnose
from redline.verbs.digest import digest
from tests.support.events import Event, collective, document, kernel, launch, op, read_one, region

NOTHING = Intervals.empty()


def step(number: int, ts: float, dur: float) -> Event:
    return region(f"ProfilerStep#{number}", ts, dur)


def analysis(events: list[Event], folder: Path) -> RankAnalysis:
    return analysis_of(read_one(document(events), folder), None)


def drawn(events: list[Event], folder: Path, waiting: Intervals = NOTHING) -> StepView:
    view = step_view_of(analysis(events, folder), waiting, 0)
    assert view is not None
    return view


def one_step() -> list[Event]:
    """1,000 us: the host prepares for 400 us, a kernel runs for 500 us."""
    return [
        step(1, 0, 1000),
        op("aten::prepare", 10, 380),
        op("aten::mm", 395, 20),
        launch(398, 1),
        kernel("gemm", 400, 500, correlation=1),
    ]


def area_ns(view: StepView, account: Account) -> float:
    return sum((band.end_ns - band.start_ns) * (band.high - band.low) for band in view.bands if band.account == account)


def test_every_account_has_the_area_that_the_ledger_gives_it(tmp_path: Path) -> None:
    seen = analysis(one_step(), tmp_path)
    view = step_view_of(seen, NOTHING, 0)
    assert view is not None
    for account in ACCOUNTS:
        assert area_ns(view, account) == pytest.approx(seen.ledger.steps[0, place(account)], abs=2 * view.pixel_ns)


def test_the_step_of_median_length_is_drawn(tmp_path: Path) -> None:
    events = [step(1, 0, 900), step(2, 1000, 100), step(3, 2000, 300)]
    events += [kernel("gemm", ts + 10, 50) for ts in (0, 1000, 2000)]
    view = drawn(events, tmp_path)
    assert (view.number, view.label, view.length_ns, view.start_ns) == (2, "ProfilerStep#3", 300_000, 2_000_000)


def test_a_step_without_length_is_not_drawn(tmp_path: Path) -> None:
    empty = [step(1, 300, 0), step(2, 300, 0), step(3, 300, 0)]
    view = drawn([step(0, 0, 300), kernel("gemm", 10, 50), *empty], tmp_path)
    assert view.length_ns == 300_000


def test_a_gap_says_what_the_host_did_and_what_ended_it(tmp_path: Path) -> None:
    first = drawn(one_step(), tmp_path).gaps[0]
    assert (first.start_ns, first.end_ns, first.account, first.next_name) == (0, 400_000, Account.HOST, "gemm")
    assert first.doing is not None
    assert first.doing.name == "aten::prepare"


def test_lanes_hold_streams_and_threads_by_level(tmp_path: Path) -> None:
    stream, thread = drawn([*one_step(), region("forward", 5, 500)], tmp_path).lanes
    assert (stream.device, stream.stream, [(one.kind, one.name) for one in stream.pieces]) == (
        0,
        7,
        [("compute", "gemm")],
    )
    assert [(one.level, one.kind, one.name) for one in thread.pieces] == [
        (0, "region", "forward"),
        (1, "operator", "aten::prepare"),
        (1, "operator", "aten::mm"),
        (2, "call", "cudaLaunchKernel"),
    ]


def test_nested_operators_and_regions_around_everything_are_not_drawn(tmp_path: Path) -> None:
    events = [*one_step(), region("train", 0, 990), op("aten::inner", 20, 100)]
    names = [one.name for lane in drawn(events, tmp_path).lanes for one in lane.pieces]
    assert "train" not in names
    assert "aten::inner" not in names


def test_waiting_for_others_leaves_the_transfer(tmp_path: Path) -> None:
    events = [step(1, 0, 1000), collective(100, 800), kernel("gemm", 0, 100)]
    waiting = Intervals.union_of(np.array([100_000]), np.array([500_000]))
    view = drawn(events, tmp_path, waiting)
    assert area_ns(view, Account.PEER_WAIT) == pytest.approx(400_000, abs=2 * view.pixel_ns)
    assert area_ns(view, Account.TRANSFER) == pytest.approx(400_000, abs=2 * view.pixel_ns)


def many_small(count: int) -> list[Event]:
    """Kernels of 1 us every 3 us."""
    kernels = [kernel(f"k{number % 7}", 3 * number, 1, correlation=number + 1) for number in range(count)]
    launches = [launch(3 * number - 2.5, number + 1, dur=2) for number in range(count)]
    return [step(1, 0, 3 * count), *kernels, *launches]


def test_what_is_too_short_to_be_seen_is_drawn_together(tmp_path: Path) -> None:
    view = drawn(many_small(20_000), tmp_path)
    stream = view.lanes[0]
    assert len(stream.pieces) < 10
    assert sum(one.count for one in stream.pieces) == 20_000
    assert all(one.name == "" for one in stream.pieces if one.count > 1)
    assert area_ns(view, Account.UNRATED) == pytest.approx(20_000_000, rel=0.02)


def test_bands_get_coarser_until_they_are_few(tmp_path: Path) -> None:
    events = [step(1, 0, 40_000)]
    events += [kernel("a", 20 * number, 2 + 16 * (number % 2)) for number in range(2000)]
    view = drawn(events, tmp_path)
    assert len(view.bands) <= MOST_BANDS
    assert view.pixel_ns > 40_000_000 // PIXELS[0]


def test_only_the_longest_pieces_are_kept_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strip_module, "MOST_PIECES", 3)
    events = [step(1, 0, 1000), *(kernel(f"k{number}", 100 * number, 10 + number) for number in range(10))]
    view = drawn(events, tmp_path)
    assert [one.name for one in view.lanes[0].pieces] == ["k7", "k8", "k9"]
    assert view.more_pieces == 7


def test_only_the_busiest_lanes_are_kept(tmp_path: Path) -> None:
    events = [step(1, 0, 1000)]
    events += [kernel("k", 0, 100 + 10 * number, stream=number) for number in range(1, 10)]
    view = drawn(events, tmp_path)
    assert [lane.stream for lane in view.lanes] == [4, 5, 6, 7, 8, 9]
    assert view.more_streams == 3


def test_a_trace_without_any_time_has_no_strip(tmp_path: Path) -> None:
    assert step_view_of(analysis([op("aten::add", 5, 0)], tmp_path), NOTHING, 0) is None


# --- the rank that is drawn -------------------------------------------------------------------------------------------


def job(folder: Path) -> Path:
    """Three ranks, of which the last computes far longer."""
    folder.mkdir()
    for rank, dur in enumerate((300, 320, 900)):
        events = [step(1, 0, 1000), kernel("gemm", 0, dur)]
        (folder / f"rank{rank}.json").write_bytes(document(events, rank=rank, world_size=3))
    return folder


def test_the_typical_rank_is_nearest_to_the_average(tmp_path: Path) -> None:
    timelines = [read_one(path.read_bytes(), tmp_path) for path in sorted(job(tmp_path / "job").iterdir())]
    assert typical_place(combine([digest_of(one, None) for one in timelines])) == 1


def test_the_trace_of_the_typical_rank_is_opened_again(tmp_path: Path) -> None:
    folder = job(tmp_path / "job")
    assert diagnose([folder]).step_view is None
    view = diagnose([folder], draw_step=True).step_view
    assert view is not None
    assert (view.rank, view.length_ns) == (1, 1_000_000)


def test_digests_have_no_strip(tmp_path: Path) -> None:
    digest([job(tmp_path / "job")], tmp_path / "digests")
    assert diagnose([tmp_path / "digests"], draw_step=True).step_view is None


def test_a_trace_among_several_in_an_archive_is_found_again(tmp_path: Path) -> None:
    folder = job(tmp_path / "job")
    with tarfile.open(tmp_path / "job.tar", "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, path.name)
    view = diagnose([tmp_path / "job.tar"], draw_step=True).step_view
    assert view is not None
    assert view.rank == 1


def test_a_drawn_step_is_redacted_with_the_rest(tmp_path: Path) -> None:
    events = [step(1, 0, 1000), op("load /home/alice/secret.bin", 10, 300), launch(320, 1), kernel("gemm", 400, 500)]
    path = tmp_path / "a.json"
    path.write_bytes(document(events))
    found = diagnose([path], draw_step=True)
    assert "alice" in str(found.step_view)
    assert "alice" not in str(found.redacted().step_view)
