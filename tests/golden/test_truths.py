"""Known right answers in the real traces, as far as reading, linking and clocks can give them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from redline.job.clocks import align
from redline.job.collectives import Matched, arrivals_of, matched
from redline.job.job import summarise
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import Kind, Timeline
from redline.trace.reader import read_file
from tests.support.real_traces import RealTraces

pytestmark = pytest.mark.needs_traces

DLRM_RESIDENCE_US = [5_798, 11_336, 3_492, 9_774, 6_587, 6_251, 3_558, 1_746]
DLRM_LAST_ARRIVALS = [7, 7, 7, 7, 7, 5, 5, 4]
DLRM_SHORTEST_US = [7, 7, 8, 10, 10, 20, 69, 86]


@pytest.fixture(scope="module")
def dlrm(traces: RealTraces) -> list[Timeline]:
    found = [read_file(path).timelines[0] for path in sorted((traces / "dlrm_8rank_v100").iterdir())]
    return sorted(found, key=lambda timeline: timeline.rank)


def _only(path: Path) -> Timeline:
    (timeline,) = read_file(path).timelines
    return timeline


def _union(timeline: Timeline, *kinds: Kind) -> Intervals:
    rows = timeline.spans.rows_of(*kinds)
    return Intervals.union_of(timeline.spans.start_ns[rows], timeline.spans.end_ns[rows])


def test_g1_residence_in_collectives_per_rank(dlrm: list[Timeline]) -> None:
    residence_us = []
    for timeline in dlrm:
        rows = timeline.communications.row
        residence_us.append(round(int(timeline.spans.dur_ns[rows].sum()) / 1000))
    assert residence_us == DLRM_RESIDENCE_US


def _matched(dlrm: list[Timeline]) -> Matched:
    return matched([arrivals_of(timeline) for timeline in dlrm])


def test_g1_collectives_are_matched_without_metadata(dlrm: list[Timeline]) -> None:
    table = _matched(dlrm)
    operations = np.unique(table.operation)
    assert len(operations) == 8
    shortest, last = [], []
    for operation in operations.tolist():
        part = table.take(table.operation == operation)
        assert part.rank.tolist() == list(range(8))
        shortest.append(int((part.end_ns - part.start_ns).min()) // 1000)
        last.append((int(part.end_ns.min()), int(part.rank[part.start_ns.argmax()])))
    assert sorted(shortest) == DLRM_SHORTEST_US
    assert [rank for _, rank in sorted(last)] == DLRM_LAST_ARRIVALS


def test_g1_the_late_rank_begins_its_step_late(dlrm: list[Timeline]) -> None:
    starts = [timeline.zero_ns + int(timeline.steps.start_ns[0]) for timeline in dlrm]
    assert (starts[7] - starts[1]) / 1000 == pytest.approx(7_513, rel=0.001)


def test_g2_a_shifted_clock_is_found_within_5_us(dlrm: list[Timeline]) -> None:
    shift_ns = 50_000_000
    shifted = [replace(one, zero_ns=one.zero_ns + shift_ns) if one.rank == 3 else one for one in dlrm]
    clocks = align(_matched(shifted), len(shifted))
    assert abs(clocks.offset_ns[3] - shift_ns) <= 5_000
    assert all(abs(offset) <= 5_000 for rank, offset in enumerate(clocks.offset_ns) if rank != 3)
    assert clocks.worst_ns <= 5_000
    assert clocks.trusted


def test_g4_expert_parallel_kernels_are_communication(traces: RealTraces) -> None:
    timeline = _only(traces / "h800_deepseek_v3_train_dualpipe.json.gz")
    communication = _union(timeline, Kind.COMMUNICATION)
    compute = _union(timeline, Kind.KERNEL)
    assert communication.length_ns / 1e6 == pytest.approx(113.44, rel=0.001)
    assert compute.length_ns / 1e6 == pytest.approx(124.31, rel=0.001)
    assert (communication & compute).length_ns / 1e6 == pytest.approx(109.25, rel=0.001)
    assert (communication - compute).length_ns / 1e6 == pytest.approx(4.19, rel=0.002)


def test_g5_two_ranks_in_one_file(traces: RealTraces) -> None:
    ranks = read_file(traces / "h20_ddp_2ranks_merged.json.gz").timelines
    assert not any(device.name for rank in ranks for device in rank.metadata.devices)  # "python3" is the host's name
    assert [one.rank for one in ranks] == [0, 1]
    assert [len(one.steps) for one in ranks] == [4, 4]
    assert all(one.step_anchor.startswith("optimizer steps") for one in ranks)
    for number, one in enumerate(ranks):
        host = {lane.process for lane in one.lanes if not lane.on_device and lane.process.startswith("2562")}
        assert host == {f"2562{4 + number}"}
        devices = {one.lanes[lane].device for lane in np.unique(one.spans.lane[one.device_work.row]).tolist()}
        assert devices == {number}


def test_g5_the_gradient_bucket(traces: RealTraces) -> None:
    for one in read_file(traces / "h20_ddp_2ranks_merged.json.gz").timelines:
        comms = one.communications
        reduces = comms.take(np.array([one.text(word) == "all_reduce" for word in comms.collective]))
        assert reduces.in_elements.tolist() == [11_175_370] * 4
        assert {one.text(dtype) for dtype in reduces.dtype} == {"Float"}
        assert {one.text(members) for members in reduces.group_ranks} == {"[0, 1]"}
        assert 173_000 <= int(one.spans.dur_ns[reduces.row].min()) <= 174_500


def test_g6_busy_time(traces: RealTraces) -> None:
    timeline = _only(traces / "h20_single.json.gz")
    summary = summarise(timeline)
    assert summary.busy_ns / 1e6 == pytest.approx(12.215, rel=0.001)
    kernels = timeline.spans.rows_of(Kind.KERNEL)
    assert len(kernels) == 1_592
    assert int((timeline.spans.dur_ns[kernels] < 10_000).sum()) == 1_227


def test_g8_kernels_without_a_launch_are_kept(traces: RealTraces) -> None:
    summary = summarise(_only(traces / "h100_Qwen_Qwen1.5-0.5B-Chat.json.gz"))
    coverage = summary.coverage
    assert (coverage.pieces, coverage.pieces - coverage.with_launch) == (1_707, 509)
    assert (coverage.time_ns - coverage.with_launch_ns) / 1e6 == pytest.approx(13.74, rel=0.001)
    assert summary.busy_ns / 1e6 == pytest.approx(45.647, rel=0.001)


def test_g10_kernels_of_a_graph(traces: RealTraces) -> None:
    timeline = _only(traces / "vllm_decode_fullgraph_exec.json.gz")
    coverage = summarise(timeline).coverage
    assert len(timeline.spans.rows_of(Kind.KERNEL)) == 425
    assert coverage.graph_launches == 1
    assert coverage.from_graphs == 421


@pytest.mark.parametrize(
    "name",
    [
        "hta_cpu_only_rank34.pt.trace.json.gz",
        "hta_no_distributedInfo.json.gz",
        "hta_rank_missing.json.gz",
        "mi210_gpu_only.json.gz",
        "kineto_before_fix_trace.json.gz",
        "kineto_after_fix_trace.json.gz",
    ],
)
def test_g11_incomplete_traces_read(traces: RealTraces, name: str) -> None:
    timeline = _only(traces / name)
    timeline.self_check()
    assert len(timeline.spans)


def test_forward_and_backward_are_linked(traces: RealTraces) -> None:
    """The H20 training step has 144 arrows from a forward to a backward operator in each of its four steps."""
    timeline = _only(traces / "h20_single.json.gz")
    operators = timeline.operators
    linked = operators.take(operators.forward >= 0)
    forward_start = timeline.spans.start_ns[linked.forward]
    assert (timeline.spans.start_ns[linked.row] > forward_start).all()
    evaluated = [timeline.texts[timeline.spans.name[row]] for row in linked.row.tolist()]
    assert sum("Backward" in name or "autograd" in name for name in evaluated) >= 4 * 72
