"""The trace generator: its files are valid, its physics is causal, and its truth is what the files say."""

import gzip
import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.traces.faults import Faults
from tests.support.traces.jobspec import Collectives, TextLayout
from tests.support.traces.program import one_forward_one_backward
from tests.support.traces.synthetic import (
    WALL_START_NS,
    JobSpec,
    ParallelSizes,
    Straggler,
    rank_events_text,
    rank_text,
    simulate_job,
    truth_of,
    write_job,
    write_large_file,
    write_rank,
)

SMALL = JobSpec(ranks=4, steps=2, layers=2, seed=7)
RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "plain_loop.pt.trace.json.gz"

SPECS = {
    "data parallel": SMALL,
    "stacks": replace(SMALL, with_stacks=True),
    "classic text": replace(SMALL, text_layout="classic", with_stacks=True),
    "sharded": replace(SMALL, collectives="all_gather_reduce_scatter"),
    "no collectives": replace(SMALL, collectives="none", sync_each_step=False),
    "one rank": JobSpec(ranks=1, steps=2, layers=2),
    "all axes": JobSpec(
        ranks=8,
        steps=2,
        layers=4,
        layout=ParallelSizes(dp=2, tp=2, pp=2),
        microbatches=3,
        gpus_per_node=4,
        with_stacks=True,
    ),
    "launch bound": replace(SMALL, step_compute_us=100.0, launch_us=9.0),
    "host waits": replace(
        SMALL,
        with_stacks=True,
        batch_bytes=1 << 20,
        faults=Faults(
            item_reads=3, device_syncs=2, small_copies=3, allocations=2, pageable_batch=True, host_work_us=50.0
        ),
    ),
    "slow kernels": replace(
        SMALL, faults=Faults(precision="fp32", unfused_attention=True, unfused_gelu=True, clones=2, loop_optimizer=True)
    ),
    "convolutions": replace(
        SMALL, convolutions=True, faults=Faults(layout_conversions=True, fp64_elementwise=True, recompute=True)
    ),
    "late exchanges": replace(SMALL, faults=Faults(late_all_reduce=True, buffers=5, small_all_reduces=2)),
    "accumulation": replace(SMALL, microbatches=2, faults=Faults(reduce_every_microbatch=True, fp32_gradients=True)),
    "experts": replace(SMALL, experts="exposed"),
    "hidden experts": replace(SMALL, experts="hidden"),
    "not prefetched": replace(
        SMALL, collectives="all_gather_reduce_scatter", reshard_after_forward=False, faults=Faults(no_prefetch=True)
    ),
}


def events_of(spec: JobSpec, rank: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads("".join(rank_text(simulate_job(spec), rank)))["traceEvents"]
    return events


def nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000)


def interval(event: dict[str, Any]) -> tuple[int, int]:
    start = nanoseconds(event["ts"])
    return start, start + nanoseconds(event["dur"])


def category(event: dict[str, Any]) -> str:
    return str(event.get("cat", event["ph"]))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_counts_in_the_file_equal_the_truth(spec: JobSpec) -> None:
    schedule = simulate_job(spec)
    for rank, truth in enumerate(truth_of(schedule).ranks):
        document = json.loads("".join(rank_text(schedule, rank)))
        assert document["synthetic"] == "tests.support.traces"
        assert document["distributedInfo"]["rank"] == rank
        assert Counter(map(category, document["traceEvents"])) == truth.events


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_kernel_time_in_the_file_equals_the_truth(spec: JobSpec) -> None:
    truth = truth_of(simulate_job(spec)).ranks[0]
    kernels = [event for event in events_of(spec, 0) if event.get("cat") == "kernel"]
    assert sum(nanoseconds(event["dur"]) for event in kernels) == truth.kernel_ns
    compute = [event for event in kernels if not event["name"].startswith("nccl")]
    assert sum(nanoseconds(event["dur"]) for event in compute) == truth.compute_ns


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_work_on_a_stream_does_not_overlap(spec: JobSpec) -> None:
    for rank in range(spec.ranks):
        streams = defaultdict(list)
        for event in events_of(spec, rank):
            if event.get("cat") in {"kernel", "gpu_memcpy"}:
                streams[event["tid"]].append(interval(event))
        for intervals in streams.values():
            ordered = sorted(intervals)
            assert all(end <= start for (_, end), (start, _) in pairwise(ordered))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_launches_precede_kernels_and_belong_to_their_operator(spec: JobSpec) -> None:
    events = events_of(spec, spec.ranks - 1)
    launches = {event["args"]["correlation"]: event for event in events if event.get("cat") == "cuda_runtime"}
    operators = {event["args"]["External id"]: event for event in events if event.get("cat") == "cpu_op"}
    for event in events:
        if event.get("cat") in {"kernel", "gpu_memcpy"}:
            launch = launches.pop(event["args"]["correlation"])
            operator = operators[event["args"]["External id"]]
            assert interval(launch)[0] < interval(event)[0]
            assert interval(operator)[0] <= interval(launch)[0] <= interval(launch)[1] <= interval(operator)[1]
            assert operator["tid"] == launch["tid"]
    without_work = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaFree", "cudaMalloc"}
    assert {launch["name"] for launch in launches.values()} <= without_work


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_host_events_of_a_thread_nest(spec: JobSpec) -> None:
    host = {"cpu_op", "cuda_runtime", "user_annotation", "python_function"}
    threads = defaultdict(list)
    for event in events_of(spec, 0):
        if event.get("cat") in host:
            threads[event["tid"]].append(interval(event))
    for intervals in threads.values():
        open_ends: list[int] = []
        for start, end in sorted(intervals, key=lambda pair: (pair[0], -pair[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_ids_are_unique_and_arrows_are_pairs(spec: JobSpec) -> None:
    events = events_of(spec, 0)
    complete = [event for event in events if event["ph"] == "X" and "args" in event]
    host = [e["args"]["External id"] for e in complete if e["cat"] in {"cpu_op", "user_annotation"}]
    frames = [e["args"]["Python id"] for e in complete if e["cat"] == "python_function"]
    correlations = [e["args"]["correlation"] for e in complete if e["cat"] == "cuda_runtime"]
    for ids in (host, frames, correlations):
        assert len(set(ids)) == len(ids)
    arrows = Counter((e["id"], e["ph"]) for e in events if e.get("cat") == "fwdbwd")
    assert set(arrows.values()) <= {1}
    assert {number for number, phase in arrows if phase == "s"} == {number for number, phase in arrows if phase == "f"}


def test_collectives_end_together_once_clock_offsets_are_removed() -> None:
    offsets_us = (0.0, 812.5, -3_000.25, 44.0)
    spec = replace(SMALL, clock_offsets_us=offsets_us, gpus_per_node=2)
    schedule = simulate_job(spec)
    ends = []
    for rank, offset_us in enumerate(offsets_us):
        document = json.loads("".join(rank_text(schedule, rank)))
        to_true_ns = document["baseTimeNanoseconds"] - WALL_START_NS - nanoseconds(offset_us)
        nccl = [e for e in document["traceEvents"] if e.get("cat") == "kernel" and e["name"].startswith("nccl")]
        ends.append([interval(event)[1] + to_true_ns for event in nccl])
    for together in zip(*ends, strict=True):
        assert max(together) - min(together) <= spec.end_jitter_us * 1000
    truth = truth_of(schedule)
    assert sorted(map(list, zip(*ends, strict=True))) == sorted(list(entry.ends_ns) for entry in truth.collectives)
    assert [rank.clock_offset_ns for rank in truth.ranks] == [nanoseconds(offset) for offset in offsets_us]


@pytest.mark.parametrize("where", ["compute", "host", "input"])
def test_a_straggler_makes_the_others_wait(where: Any) -> None:
    clean = JobSpec(ranks=8, steps=3, layers=4, buckets=1, kernel_jitter=0.0, host_jitter=0.0)
    slow = replace(clean, stragglers=(Straggler(rank=5, extra_us=500.0, where=where, step=1),))
    residence = []
    for spec in (clean, slow):
        (collective,) = [entry for entry in truth_of(simulate_job(spec)).collectives if entry.step == 1]
        pairs = zip(collective.arrivals_ns, collective.ends_ns, strict=True)
        residence.append([(end - arrival) / 1000 for arrival, end in pairs])
    for rank, (before_us, after_us) in enumerate(zip(*residence, strict=True)):
        expected_us = 0.0 if rank == 5 else 500.0
        assert after_us - before_us == pytest.approx(expected_us, abs=2.0)


def test_a_delay_reaches_the_next_step_of_every_rank() -> None:
    clean = JobSpec(ranks=4, steps=3, layers=2, buckets=1, kernel_jitter=0.0)
    slow = replace(clean, stragglers=(Straggler(rank=1, extra_us=2_000.0, step=0),))
    starts = [[r.step_windows_ns[1][0] for r in truth_of(simulate_job(spec)).ranks] for spec in (clean, slow)]
    for before_ns, after_ns in zip(*starts, strict=True):
        assert after_ns - before_ns == pytest.approx(2_000_000, abs=10_000)


def test_host_slack_hides_a_host_straggler() -> None:
    """Without a sync the host runs ahead, and a pause shorter than its lead costs nothing: causal, not painted on."""
    clean = JobSpec(ranks=2, steps=4, layers=4, kernel_jitter=0.0, sync_each_step=False)
    slow = replace(clean, stragglers=(Straggler(rank=0, extra_us=500.0, where="host", step=3),))
    last_end = [max(truth_of(simulate_job(spec)).collectives[-1].ends_ns) for spec in (clean, slow)]
    assert abs(last_end[1] - last_end[0]) < 5_000


def test_the_host_waits_in_its_sync_until_the_device_is_done() -> None:
    events = events_of(JobSpec(ranks=2, steps=1, layers=2, step_compute_us=50_000.0), 0)
    (wait,) = [interval(event) for event in events if event["name"] == "cudaStreamSynchronize"]
    (item,) = [interval(event) for event in events if event["name"] == "aten::item"]
    device_end = max(interval(event)[1] for event in events if event.get("cat") in {"kernel", "gpu_memcpy"})
    assert device_end < wait[1] <= device_end + 5_000
    assert item[0] < wait[0] < wait[1] < item[1]


def test_step_marks_and_loader_marks_show_the_true_windows() -> None:
    spec = replace(
        SMALL, with_stacks=True, host_jitter=0.0, stragglers=(Straggler(rank=0, extra_us=5_000, where="input"),)
    )
    schedule = simulate_job(spec)
    document = json.loads("".join(rank_text(schedule, 0)))
    to_true_ns = document["baseTimeNanoseconds"] - WALL_START_NS
    marks = [event for event in document["traceEvents"] if event.get("cat") == "user_annotation"]
    steps = [interval(event) for event in marks if event["name"].startswith("ProfilerStep#")]
    windows = tuple((start + to_true_ns, end + to_true_ns) for start, end in steps)
    assert windows == truth_of(schedule).ranks[0].step_windows_ns
    loads = [nanoseconds(event["dur"]) for event in marks if event["name"].startswith("enumerate(DataLoader)")]
    assert loads == [pytest.approx(5_080_000, abs=100)] * spec.steps


def test_a_pipeline_stage_waits_for_the_one_before() -> None:
    spec = JobSpec(ranks=2, steps=1, layers=2, layout=ParallelSizes(pp=2), microbatches=2)
    first, second = (
        [e for e in events_of(spec, rank) if e.get("cat") == "kernel" and e["name"].startswith("nccl")]
        for rank in (0, 1)
    )
    assert [event["args"]["Collective name"] for event in first] == ["send", "send", "recv", "recv"]
    assert [event["args"]["Collective name"] for event in second] == ["recv", "send", "recv", "send"]
    compute = min(interval(e)[0] for e in events_of(spec, 1) if e.get("cat") == "kernel" and "nccl" not in e["name"])
    assert compute >= interval(second[0])[1]


def test_pipeline_order_is_one_forward_one_backward() -> None:
    order = [f"{phase[0]}{index}" for phase, index in one_forward_one_backward(stage=1, stages=4, microbatches=4)]
    assert order == ["f0", "f1", "f2", "b0", "f3", "b1", "b2", "b3"]


@pytest.mark.parametrize(
    ("collectives", "names"),
    [
        ("all_reduce", {"allreduce": 8}),
        ("all_gather_reduce_scatter", {"_allgather_base": 2 * 4 * 2, "_reduce_scatter_base": 2 * 4}),
    ],
)
def test_collectives_of_a_step(collectives: Collectives, names: dict[str, int]) -> None:
    spec = JobSpec(ranks=2, steps=2, layers=4, collectives=collectives)
    kernels = [e for e in events_of(spec, 0) if e.get("cat") == "kernel" and e["name"].startswith("nccl")]
    assert Counter(event["args"]["Collective name"] for event in kernels) == names
    assert {event["args"]["Process Group Ranks"] for event in kernels} == {"[0, 1]"}


def test_collective_metadata_can_be_left_out() -> None:
    assert "Collective name" not in rank_events_text(simulate_job(replace(SMALL, collective_metadata=False)), 0)


def test_long_groups_are_cut_as_torch_does() -> None:
    text = rank_events_text(simulate_job(JobSpec(ranks=40, steps=1, layers=1)), 0)
    assert f'"Process Group Ranks": "[{", ".join(map(str, range(30)))}, ...]"' in text


def test_groups_of_a_mesh_partition_the_ranks() -> None:
    spec = JobSpec(ranks=24, layers=3, layout=ParallelSizes(dp=4, tp=2, pp=3))
    names = set()
    for axis, size in (("dp", 4), ("tp", 2), ("pp", 3)):
        groups = {spec.group_of(axis, rank).name: spec.group_of(axis, rank) for rank in range(24)}  # type: ignore[arg-type]
        assert sorted(rank for group in groups.values() for rank in group.ranks) == list(range(24))
        assert {len(group.ranks) for group in groups.values()} == {size}
        names |= set(groups)
    assert names == {str(number) for number in range(1, 24 // 4 + 24 // 2 + 24 // 3 + 1)}


def test_same_seed_same_bytes_other_seed_other_times(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        write_rank(simulate_job(replace(SMALL, seed=seed)), 1, tmp_path / name)
    first, again, other = ((tmp_path / name / "rank-1.pt.trace.json.gz").read_bytes() for name in "abc")
    assert first == again
    assert first != other


def test_a_job_on_disk(tmp_path: Path) -> None:
    truth = write_job(SMALL, tmp_path, workers=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"rank-{rank}.pt.trace.json.gz" for rank in range(4)),
        "truth.json",
    ]
    written = json.loads((tmp_path / "truth.json").read_text())
    assert written["synthetic"] == "tests.support.traces"
    assert written["seed"] == truth.seed == 7
    for rank in range(4):
        events = json.loads(gzip.decompress((tmp_path / f"rank-{rank}.pt.trace.json.gz").read_bytes()))["traceEvents"]
        assert Counter(map(category, events)) == written["ranks"][rank]["events"]


def test_the_number_of_events_can_be_asked_for() -> None:
    spec = JobSpec(ranks=2, steps=2, events_per_rank=20_000, with_stacks=True)
    assert len(events_of(spec, 0)) == pytest.approx(20_000, rel=0.03)


@pytest.mark.parametrize("name", ["large.json", "large.json.gz"])
def test_a_large_file_reaches_its_size_with_unique_ids_and_rising_times(tmp_path: Path, name: str) -> None:
    written = write_large_file(tmp_path / name, 6_000_000)
    raw = written.path.read_bytes()
    text = gzip.decompress(raw) if name.endswith(".gz") else raw
    assert 6_000_000 <= len(text) == written.text_bytes < 9_000_000
    events = json.loads(text)["traceEvents"]
    assert Counter(map(category, events)) == written.events
    correlations = [e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime"]
    assert len(set(correlations)) == len(correlations)
    marks = [
        interval(e) for e in events if str(e["name"]).startswith("ProfilerStep#") and e["cat"] == "user_annotation"
    ]
    assert len(marks) == written.steps > 4
    assert all(end <= start for (_, end), (start, _) in pairwise(marks))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layout": ParallelSizes(dp=3)}, "does not make 8 ranks"),
        ({"layers": 3, "layout": ParallelSizes(dp=4, pp=2)}, "cannot be split over pp=2"),
        ({"layers": 3, "events_per_rank": 9}, "not both"),
        ({"clock_offsets_us": (1.0,)}, "1 entries for 8 ranks"),
        ({"stragglers": (Straggler(rank=8, extra_us=1.0),)}, "rank 8 is not one of 8"),
        ({"steps": 0}, "at least 1"),
        ({"launch_us": 0.1}, "too short"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JobSpec(ranks=8, **wrong)


def test_a_layout_needs_positive_sizes() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ParallelSizes(dp=0)


def skeleton(event_text: str) -> str:
    """An event's text with every value replaced, so that only keys, order and white space remain."""
    return re.sub(r'(": )("[^"]*"|[\d.]+)', r"\1_", re.sub(r'("args": \{\n).*\n', r"\1", event_text))


def first_event_text(text: str, marker: str) -> str:
    at = text.index(marker)
    begin = text.rindex("  {\n", 0, at)
    return text[begin : text.index("\n  },\n", at)]


@pytest.mark.parametrize("marker", ['"cat": "cpu_op"', '"cat": "fwdbwd"', '"ph": "M"', '"ph": "f"', '"cat": "Trace"'])
def test_text_is_laid_out_as_torch_writes_it(marker: str) -> None:
    recorded = gzip.decompress(RECORDED.read_bytes()).decode()
    synthetic = "".join(rank_text(simulate_job(SMALL), 0))
    assert skeleton(first_event_text(synthetic, marker)) == skeleton(first_event_text(recorded, marker))


def test_both_layouts_hold_the_same_events() -> None:
    layouts: tuple[TextLayout, TextLayout] = ("torch-2.13", "classic")
    new, classic = (events_of(replace(SMALL, text_layout=layout), 0) for layout in layouts)
    assert new == classic
