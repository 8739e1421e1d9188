"""Known right answers in the real traces, as `redline diagnose` gives them, and what holds on every trace."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from redline.errors import InputError, UnknownHardwareError
from redline.hardware.machine import Machine
from redline.hardware.profile import choose
from redline.job.find_files import find_traces
from redline.ledger.accounts import ACCOUNTS, Account, place
from redline.ledger.job.combine import Diagnosis, combine
from redline.ledger.job.first_screen import Unseen, outline_of
from redline.ledger.rank.activity import activity_of, loader_time, window_of
from redline.ledger.rank.digest import Digest, digest_of
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.timeline.timeline import Kind, Timeline
from redline.trace.devices import devices_of
from redline.trace.reader import read_file
from redline.verbs.diagnose import diagnose
from tests.support.real_traces import REAL_TRACES, RealTraces

pytestmark = pytest.mark.needs_traces

DLRM_RESIDENCE_US = [5_798, 11_336, 3_492, 9_774, 6_587, 6_251, 3_558, 1_746]

# Idle time that nothing in the trace explains, as a share of the window; every other trace is below 3 %.
UNEXPLAINED = {
    "kineto_after_fix_trace.json.gz": "a hand-made example of 12 events: a gap of 3 us with nothing in it",
    "kineto_before_fix_trace.json.gz": "the same",
    "param_resnet_kineto.json.gz": "1.6 s after the last kernel in which no thread recorded anything",
}
TRACES = REAL_TRACES.names("**/*.json*.gz")


def _diagnosed(*paths: Path, machine: str | None = None) -> DiagnoseResult:
    return diagnose(paths, machine=machine)


def _machine(timeline: Timeline) -> Machine | None:
    for device in devices_of(timeline):
        with suppress(UnknownHardwareError):
            return choose(None, device.name, device.memory_bytes, device.multiprocessors)
    return None


def _digests(path: Path) -> list[tuple[Timeline, Digest]]:
    return [(timeline, digest_of(timeline, _machine(timeline))) for timeline in read_file(path).timelines]


# --- one case after the other -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dlrm(traces: RealTraces) -> list[Timeline]:
    return [read_file(path).timelines[0] for path in sorted((traces / "dlrm_8rank_v100").iterdir())]


def _combined(timelines: list[Timeline]) -> Diagnosis:
    return combine([digest_of(timeline, _machine(timeline)) for timeline in timelines])


def _check_dlrm(diagnosis: Diagnosis) -> None:
    residence_us = [
        round(int((rank.exchanges.end_ns - rank.exchanges.start_ns).sum()) / 1000) for rank in diagnosis.ranks
    ]
    assert residence_us == DLRM_RESIDENCE_US
    lateness = diagnosis.lateness
    assert lateness is not None
    assert lateness.intrinsic_ns == 217_000
    assert lateness.residence_ns == sum(DLRM_RESIDENCE_US) * 1000
    assert lateness.wait_ns / lateness.residence_ns == pytest.approx(0.964, abs=0.0005)
    assert lateness.last_ranks == (7, 7, 7, 7, 7, 5, 5, 4)
    culprit = lateness.ranks[0]
    assert (culprit.rank, culprit.last, culprit.cause) == (7, 5, "before the window")
    compute_ms = [rank.facts.computing_ns / 1e6 for rank in diagnosis.ranks]
    assert min(compute_ms) == pytest.approx(1.03, abs=0.01)
    assert max(compute_ms) == pytest.approx(1.25, abs=0.01)
    waiting = [rank.ledger.of(Account.PEER_WAIT) for rank in diagnosis.ranks]
    assert min(waiting) == waiting[7]


def test_g1_nearly_all_of_the_communication_is_waiting_for_rank_7(dlrm: list[Timeline]) -> None:
    _check_dlrm(_combined(dlrm))


def test_g2_a_shifted_clock_changes_nothing(dlrm: list[Timeline]) -> None:
    shifted = [replace(one, zero_ns=one.zero_ns + 50_000_000) if one.rank == 3 else one for one in dlrm]
    diagnosis = _combined(shifted)
    _check_dlrm(diagnosis)
    straight = _combined(dlrm)
    assert diagnosis.clocks.offset_ns[3] - straight.clocks.offset_ns[3] == pytest.approx(50_000_000, abs=5_000)
    assert diagnosis.in_steps.tolist() == straight.in_steps.tolist()


@pytest.mark.parametrize(
    ("slow", "fast", "slow_ms", "fast_ms"),
    [("0_1623143089861", "4_1623212756351", 176.3, 126.6), ("0_1623143566756", "4_1623213129365", 152.5, 125.1)],
)
def test_g3_the_data_loader(traces: RealTraces, slow: str, fast: str, slow_ms: float, fast_ms: float) -> None:
    before, after = (_diagnosed(traces / f"tb_resnet50_num_workers_{name}.pt.trace.json.gz") for name in (slow, fast))
    assert before.outline.steps.median_ns / 1e6 == pytest.approx(slow_ms, rel=0.001)
    assert after.outline.steps.median_ns / 1e6 == pytest.approx(fast_ms, rel=0.001)
    shares = [
        one.diagnosis.ranks[0].ledger.of(Account.INPUT) / one.diagnosis.ranks[0].ledger.window_ns
        for one in (before, after)
    ]
    # The loader itself takes 39.6 % of the step (below); the device is idle for most of it.
    assert 0.2 < shares[0] < 0.396
    assert shares[1] < 0.01
    # What a fix can gain at most is no less than what it did gain.
    assert before.diagnosis.per_step[Account.INPUT] >= before.outline.steps.median_ns - after.outline.steps.median_ns


def test_g3_the_loader_takes_40_percent_of_the_step(traces: RealTraces) -> None:
    timeline = read_file(traces / "tb_resnet50_num_workers_0_1623143089861.pt.trace.json.gz").timelines[0]
    (loading,) = loader_time(timeline).values()
    loading_ns = loading.overlap_with(timeline.steps.start_ns, timeline.steps.end_ns)
    steps_ns = timeline.steps.end_ns - timeline.steps.start_ns
    assert (loading_ns.min() / 1e6, loading_ns.max() / 1e6) == pytest.approx((62.6, 73.4), rel=0.001)
    assert float(np.median(loading_ns)) / 1e6 == pytest.approx(69.8, rel=0.001)
    assert float(np.median(loading_ns) / np.median(steps_ns)) == pytest.approx(0.396, rel=0.001)


def test_g4_expert_traffic_is_hidden_but_for_4_ms(traces: RealTraces) -> None:
    (rank,) = _diagnosed(traces / "h800_deepseek_v3_train_dualpipe.json.gz").diagnosis.ranks
    exposed_ns = rank.ledger.of(Account.TRANSFER) + rank.ledger.of(Account.PEER_WAIT)
    assert exposed_ns / 1e6 == pytest.approx(4.19, rel=0.001)
    assert rank.facts.communicating_ns / 1e6 == pytest.approx(113.44, rel=0.001)
    assert rank.facts.computing_ns / 1e6 == pytest.approx(124.31, rel=0.001)
    assert rank.ledger.busy_ns / 1e6 == pytest.approx(128.515, rel=0.001)
    assert rank.facts.device_window_ns / 1e6 == pytest.approx(129.012, rel=0.001)


def test_g5_two_ranks_of_one_file(traces: RealTraces) -> None:
    result = _diagnosed(traces / "h20_ddp_2ranks_merged.json.gz")
    diagnosis = result.diagnosis
    assert [rank.origin.rank for rank in diagnosis.ranks] == [0, 1]
    assert result.outline.steps.steps == 4
    reduce = next(row for row in diagnosis.collectives if row.collective == "all_reduce")
    assert (reduce.payload_bytes, reduce.calls, reduce.group_size) == (44_701_480, 8, 2)
    assert 173_000 <= reduce.typical_ns <= 174_500
    assert (reduce.algorithm_bytes_per_s or 0) / 1e9 == pytest.approx(256.8, rel=0.001)
    assert reduce.bus_bytes_per_s == reduce.algorithm_bytes_per_s
    assert reduce.hidden_share <= 0.017
    lateness = diagnosis.lateness
    assert lateness is not None
    assert lateness.pattern == "first step only"


def test_g6_the_host_is_what_a_small_job_waits_for(traces: RealTraces) -> None:
    result = _diagnosed(traces / "h20_single.json.gz")
    (rank,) = result.diagnosis.ranks
    assert rank.ledger.busy_ns / 1e6 == pytest.approx(12.215, rel=0.001)
    assert rank.facts.device_window_ns / 1e6 == pytest.approx(59.863, rel=0.001)
    assert (rank.facts.kernels, rank.facts.short_kernels) == (1_592, 1_227)
    assert result.outline.largest[0].account == Account.HOST
    assert result.outline.largest[0].share > 0.6
    assert rank.ledger.of(Account.TRANSFER) == 0


def test_g7_after_a_large_gain_the_host_is_next(traces: RealTraces) -> None:
    before, after = (
        _diagnosed(traces / f"sam_amg_{state}_9566500c.json.gz").diagnosis.ranks[0] for state in (False, True)
    )
    for rank, busy_ms, total_ms in ((before, 1257.1, 1377.1), (after, 383.9, 498.8)):
        assert rank.ledger.busy_ns / 1e6 == pytest.approx(busy_ms, rel=0.001)
        assert rank.facts.device_window_ns / 1e6 == pytest.approx(total_ms, rel=0.001)
    host_share = [rank.ledger.of(Account.HOST) / rank.ledger.window_ns for rank in (before, after)]
    assert host_share[0] < 0.1
    assert 0.2 < host_share[1] < 0.3
    assert after.ledger.of(Account.HOST) > max(after.ledger.of(account) for account in (Account.SYNC, Account.QUEUE))


def test_g8_kernels_without_launch_count_and_matmuls_have_their_rate(traces: RealTraces) -> None:
    result = _diagnosed(traces / "h100_Qwen_Qwen1.5-0.5B-Chat.json.gz")
    (rank,) = result.diagnosis.ranks
    assert rank.ledger.busy_ns / 1e6 == pytest.approx(45.647, rel=0.001)
    assert rank.facts.device_window_ns / 1e6 == pytest.approx(49.653, rel=0.001)
    assert rank.facts.without_launch == 509
    assert rank.facts.without_launch_ns / 1e6 == pytest.approx(13.74, rel=0.001)
    assert any(remark.what == Unseen.NO_LAUNCH for remark in result.outline.unseen)
    matmul = next(row for row in rank.kernels if row.shapes == "[[8944, 1024], [1024, 2816]]")
    assert (matmul.operator, matmul.dtype, matmul.regime) == ("aten::mm", "bf16", "compute")
    assert matmul.flops / matmul.time_ns / 1e3 == pytest.approx(610.7, rel=0.001)
    assert matmul.share == pytest.approx(0.617, rel=0.001)


def test_g10_a_decode_step_in_one_graph(traces: RealTraces) -> None:
    (rank,) = _diagnosed(traces / "vllm_decode_fullgraph_exec.json.gz").diagnosis.ranks
    assert (rank.facts.kernels, rank.facts.graph_launches) == (425, 1)
    assert rank.origin.phases == ("decode",)
    idle_ns = rank.facts.device_window_ns - rank.ledger.busy_ns
    assert idle_ns / rank.facts.device_window_ns == pytest.approx(0.0024, abs=0.00005)
    assert rank.ledger.busy_ns / rank.ledger.window_ns == pytest.approx(1 - 0.439, abs=0.001)
    by_name = [row for row in rank.kernels if not row.operator]
    assert sum(row.time_ns for row in by_name) > 0.9 * rank.facts.kernel_ns
    assert all(row.kernel for row in by_name)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("hta_cpu_only_rank34.pt.trace.json.gz", {Unseen.NO_DEVICE, Unseen.NO_PEAK}),
        ("hta_no_distributedInfo.json.gz", {Unseen.NO_DEVICE}),
        ("hta_rank_missing.json.gz", {Unseen.NO_DEVICE}),
        ("mi210_gpu_only.json.gz", {Unseen.NO_PEAK, Unseen.UNKNOWN_WORK}),
        ("kineto_before_fix_trace.json.gz", {Unseen.UNKNOWN_WORK, Unseen.NO_STEPS}),
        ("kineto_after_fix_trace.json.gz", {Unseen.UNKNOWN_WORK, Unseen.NO_STEPS}),
    ],
)
def test_g11_what_is_missing_is_said(traces: RealTraces, name: str, missing: set[Unseen]) -> None:
    result = _diagnosed(traces / name)
    assert missing <= {remark.what for remark in result.outline.unseen}


def test_g11_a_cut_file_is_diagnosed_as_far_as_it_goes(traces: RealTraces, tmp_path: Path) -> None:
    whole = (traces / "h20_single.json.gz").read_bytes()
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    result = _diagnosed(cut)
    assert any(remark.what == Unseen.DROPPED for remark in result.outline.unseen)


# --- every trace ------------------------------------------------------------------------------------------------------


def _brute_force_busy_ns(timeline: Timeline) -> int:
    """The union of device work, by walking through it in plain Python."""
    on_device = {number for number, lane in enumerate(timeline.lanes) if lane.on_device}
    kinds = {Kind.KERNEL, Kind.COMMUNICATION, Kind.COPY, Kind.SET}
    columns = (timeline.spans.start_ns, timeline.spans.dur_ns, timeline.spans.kind, timeline.spans.lane)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    work = sorted((start, start + dur) for start, dur, kind, lane in rows if kind in kinds and lane in on_device)
    busy_ns, reached = 0, -1
    for start, end in work:
        busy_ns += max(0, end - max(start, reached))
        reached = max(reached, end)
    return busy_ns


@pytest.mark.parametrize("name", TRACES)
def test_every_nanosecond_is_in_one_account_and_nothing_is_faster_than_its_roof(name: str, traces: RealTraces) -> None:
    path = traces / name
    try:
        digests = _digests(path)
    except InputError:
        pytest.skip(f"{name} is not a trace")
    for timeline, digest in digests:
        _check_ledger(timeline, digest, explained=path.name not in UNEXPLAINED)
        for row in digest.kernels:
            assert row.share is None or 0 <= row.share <= 1
            if row.known and row.roof_ns > row.time_ns:
                assert row.regime == "above roof"
                assert row.above > 0


def _check_ledger(timeline: Timeline, digest: Digest, *, explained: bool) -> None:
    ledger = digest.ledger
    ledger.self_check()
    lo, hi = window_of(timeline)
    assert int(ledger.total.sum()) == hi - lo
    if digest.facts.device == "gpu":
        assert ledger.busy_ns == _brute_force_busy_ns(timeline)
    other_ns = int(ledger.total[place(Account.OTHER)])
    assert (other_ns <= 0.03 * ledger.window_ns) == explained


def test_the_four_states_of_a_device_fill_the_window(traces: RealTraces) -> None:
    for path in find_traces([traces / "dlrm_8rank_v100"]):
        activity = activity_of(read_file(path).timelines[0])
        parts = (activity.computing, activity.communicating, activity.copying, activity.idle)
        assert sum(part.length_ns for part in parts) == activity.window_ns[1] - activity.window_ns[0]


def test_the_average_step_is_the_sum_of_its_accounts(traces: RealTraces) -> None:
    result = _diagnosed(traces / "dlrm_8rank_v100")
    waterfall = result.outline.waterfall
    assert [bar.account for bar in waterfall] == list(ACCOUNTS)
    lengths = [int((rank.ledger.end_ns - rank.ledger.start_ns).sum()) for rank in result.diagnosis.ranks]
    assert sum(bar.time_ns for bar in waterfall) == pytest.approx(sum(lengths) / 8)
    assert outline_of(result.diagnosis) == result.outline
