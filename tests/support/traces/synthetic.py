"""Synthetic Kineto traces with known truth, for tests and benchmarks. Everything written here says it is synthetic.

    truth = write_job(JobSpec(ranks=64, stragglers=(Straggler(rank=5, extra_us=500),)), folder)

writes rank-0.pt.trace.json.gz ... and truth.json. Ranks can also be written one by one, in any process:

    schedule = simulate_job(spec)
    write_rank(schedule, 5, folder)

What this does not show: NCCL at scale, network noise, the profiler's own overhead, or anything else not in `simulate`.
"""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from isal import igzip

from tests.support.traces import kineto_text
from tests.support.traces.events import SECTIONS, step_sections
from tests.support.traces.faults import Faults
from tests.support.traces.jobspec import Axis, JobSpec, ParallelSizes, ProcessGroup, Straggler
from tests.support.traces.kineto_text import Nanoseconds, StepText
from tests.support.traces.program import stage_program
from tests.support.traces.simulate import SimulatedJob, StageSchedule, simulate

__all__ = [
    "CollectiveTruth",
    "Faults",
    "JobSpec",
    "ParallelSizes",
    "RankTruth",
    "SimulatedJob",
    "Straggler",
    "Truth",
    "WrittenFile",
    "rank_events_text",
    "rank_file_name",
    "rank_text",
    "simulate_job",
    "truth_of",
    "write_job",
    "write_large_file",
    "write_rank",
]

LABEL = "tests.support.traces"
WALL_START_NS = 1_790_857_026_000_000_000  # the job's true time zero on the calendar: 2026-10-01
_BASE_AGE_NS = 3_852_162_000_000_000  # how long before the job a node's Kineto base time lies
_GROUP_RANKS_SHOWN = 30  # torch cuts "Process Group Ranks" after this many
_LEAD_NS = 100_000  # the profiler's span starts this long before the first step


@dataclass(frozen=True, kw_only=True)
class CollectiveTruth:
    """One collective in true time; arrivals and ends are in the order of `ranks`."""

    name: str
    step: int
    item: int  # position in the program of the first rank's stage
    group: str
    ranks: tuple[int, ...]
    arrivals_ns: tuple[int, ...]
    ends_ns: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RankTruth:
    """One rank: its clock, its steps, what its device did, and what its file holds."""

    rank: int
    clock_offset_ns: int  # what its clock reads minus true time
    step_windows_ns: tuple[tuple[int, int], ...]  # of ProfilerStep, true time
    kernel_ns: int  # sum of durations over all kernels, waiting in collectives included
    compute_ns: int  # the same without communication kernels
    events: dict[str, int]  # by category; events without one under their phase, "M" or "i"


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a reader of the traces should find."""

    spec: JobSpec
    ranks: tuple[RankTruth, ...]
    collectives: tuple[CollectiveTruth, ...]

    @property
    def seed(self) -> int:
        """The seed everything follows from."""
        return self.spec.seed

    def to_json(self) -> str:
        """The truth as JSON text, labelled synthetic."""
        stragglers = [asdict(straggler) for straggler in self.spec.stragglers]
        document = {"synthetic": LABEL, "seed": self.seed, "stragglers": stragglers, **asdict(self)}
        return json.dumps(document)


@dataclass(frozen=True, kw_only=True)
class WrittenFile:
    """What was written: uncompressed size, steps, and events by category."""

    path: Path
    text_bytes: int
    steps: int
    events: dict[str, int]


def simulate_job(spec: JobSpec) -> SimulatedJob:
    """The job in true time; chooses the number of layers first when the spec asks for a number of events."""
    return simulate(_with_layers(spec))


def write_job(spec: JobSpec, folder: Path, *, compress: bool = True, workers: int = 1) -> Truth:
    """Write every rank's trace and truth.json into the folder. With several workers each simulates the job itself."""
    folder.mkdir(parents=True, exist_ok=True)
    schedule = simulate_job(spec)
    if workers == 1:
        for rank in range(spec.ranks):
            write_rank(schedule, rank, folder, compress=compress)
    else:
        shares = [(spec, range(first, spec.ranks, workers), folder, compress) for first in range(workers)]
        with ProcessPoolExecutor(workers) as pool:
            list(pool.map(_write_share, shares))
    truth = truth_of(schedule)
    (folder / "truth.json").write_text(truth.to_json())
    return truth


def write_rank(schedule: SimulatedJob, rank: int, folder: Path, *, compress: bool = True) -> WrittenFile:
    """Write one rank's trace; the same schedule and rank always give the same bytes."""
    path = folder / rank_file_name(rank, compress=compress)
    text_bytes = 0
    with _opened(path, compress) as file:
        for text in rank_text(schedule, rank):
            text_bytes += file.write(text.encode())
    events = dict(_event_counts(schedule.spec, rank, schedule.spec.steps))
    return WrittenFile(path=path, text_bytes=text_bytes, steps=schedule.spec.steps, events=events)


def write_large_file(path: Path, bytes_target: int, *, with_stacks: bool = True) -> WrittenFile:
    """Write one rank's trace of at least `bytes_target` bytes of JSON, compressed when the name ends in .gz.

    A few simulated steps are repeated with later times and new ids; memory does not grow with the size.
    """
    spec = JobSpec(ranks=2, steps=4, layers=16, with_stacks=with_stacks, step_compute_us=20_000.0)
    writer = _RankWriter(simulate_job(spec), 0)
    steps = text_bytes = 0
    with _opened(path, path.suffix == ".gz") as file:
        text_bytes += file.write(writer.head().encode())
        while text_bytes < bytes_target:
            for section in writer.sections:
                text_bytes += file.write(writer.step(section, steps).encode())
            steps += 1
        text_bytes += file.write(writer.tail(path.name, steps).encode())
    return WrittenFile(path=path, text_bytes=text_bytes, steps=steps, events=dict(_event_counts(spec, 0, steps)))


def rank_text(schedule: SimulatedJob, rank: int) -> Iterator[str]:
    """One rank's whole trace as JSON text, piece by piece."""
    writer = _RankWriter(schedule, rank)
    name = rank_file_name(rank, compress=False)
    yield writer.head()
    yield from _event_pieces(writer, schedule.spec.steps)
    yield writer.tail(name, schedule.spec.steps)


def rank_events_text(schedule: SimulatedJob, rank: int) -> str:
    """The step events of one rank: comma-separated JSON objects, without the file around them."""
    return "".join(_event_pieces(_RankWriter(schedule, rank), schedule.spec.steps))


def rank_file_name(rank: int, *, compress: bool = True) -> str:
    """The name write_job gives a rank's file."""
    return f"rank-{rank}.pt.trace.json" + (".gz" if compress else "")


def truth_of(schedule: SimulatedJob) -> Truth:
    """The ground truth of a simulated job."""
    ranks = tuple(_rank_truth(schedule, rank) for rank in range(schedule.spec.ranks))
    collectives = tuple(truth for stage in schedule.stages for truth in _collective_truths(schedule, stage))
    return Truth(spec=schedule.spec, ranks=ranks, collectives=collectives)


def _write_share(share: tuple[JobSpec, range, Path, bool]) -> None:
    spec, ranks, folder, compress = share
    schedule = simulate_job(spec)
    for rank in ranks:
        write_rank(schedule, rank, folder, compress=compress)


def _event_pieces(writer: "_RankWriter", steps: int) -> Iterator[str]:
    for section in writer.sections:
        for step in range(steps):
            yield writer.step(section, step)


class _RankWriter:
    """One rank's text: bound templates and the rank's own clock."""

    def __init__(self, schedule: SimulatedJob, rank: int) -> None:
        self.spec, self.rank = schedule.spec, rank
        stage = schedule.stage_of(rank)
        column = rank - stage.first_rank
        self.steps = self.spec.steps
        node = rank // self.spec.gpus_per_node
        self.base_ns = WALL_START_NS - _BASE_AGE_NS - node * 7_000_000_000  # nodes booted at different times
        shift = WALL_START_NS - self.base_ns + self.spec.clock_offset_ns(rank)
        self.start_ns = (
            np.concatenate([stage.host_start_ns[..., column], stage.device_start_ns[..., column]], 1) + shift
        )
        self.end_ns = np.concatenate([stage.host_end_ns[..., column], stage.device_end_ns[..., column]], 1) + shift
        self.cycle_ns = int(self.end_ns[-1].max() - self.start_ns[0, 0])
        bound = _rank_tokens(self.spec, rank)
        self.sections = {
            name: text.bind(bound) for name, text in _sections(self.spec, self.spec.stage_of(rank)).items()
        }

    def step(self, section: str, step: int) -> str:
        """A step's section; steps beyond the simulated ones repeat them at later times."""
        start_ns, end_ns = self._times(step)
        return self.sections[section].render(start_ns, end_ns, step)

    def _times(self, step: int) -> tuple[Nanoseconds, Nanoseconds]:
        cycle, index = divmod(step, self.steps)
        later = cycle * self.cycle_ns
        return self.start_ns[index] + later, self.end_ns[index] + later

    def head(self) -> str:
        spec = self.spec
        devices = ",".join(
            kineto_text.device_text(index=index, name=spec.device_name)
            for index in range(min(spec.gpus_per_node, spec.ranks))
        )
        node = self.rank // spec.gpus_per_node
        keys = {
            "synthetic": json.dumps(LABEL),
            "cuda_runtime_version": "12080",
            "cuda_driver_version": "12080",
            "distributedInfo": json.dumps(_distributed_info(spec, self.rank)),
            "record_shapes": "1",
            "with_stack": str(int(spec.with_stacks)),
            "trace_id": json.dumps(f"{spec.seed & 0xFFFF_FFFF:016X}{self.rank:016X}"),
            "host_name": json.dumps(f"synthetic-node-{node:05d}"),
        }
        head = kineto_text.head_text(spec.text_layout, devices=devices, keys=keys, base_ns=self.base_ns)
        return head + "".join(_metadata_texts(spec, self.rank, int(self.start_ns[0, 0]) - _LEAD_NS))

    def tail(self, name: str, steps: int) -> str:
        layout, begin_ns = self.spec.text_layout, int(self.start_ns[0, 0]) - _LEAD_NS
        end_ns = int(self._times(steps - 1)[1].max()) + _LEAD_NS if steps else begin_ns + _LEAD_NS
        return (
            kineto_text.span_text(layout, begin_ns=begin_ns, end_ns=end_ns)
            + kineto_text.instant_text(
                layout,
                name="Iteration Start: PyTorch Profiler",
                pid='"Traces"',
                tid='"Trace PyTorch Profiler"',
                at_ns=begin_ns,
                last=False,
            )
            + kineto_text.instant_text(layout, name="Record Window End", pid='""', tid='""', at_ns=end_ns, last=True)
            + kineto_text.tail_text(layout, name=name, base_ns=self.base_ns)
        )


@lru_cache(maxsize=64)
def _sections(spec: JobSpec, stage: int) -> dict[str, StepText]:
    texts = step_sections(spec, stage_program(spec, stage), stage)
    return {name: texts[name] for name in SECTIONS if name in texts}


def _with_layers(spec: JobSpec) -> JobSpec:
    """Replace events_per_rank by the number of layers that comes closest; the count is linear in the layers."""
    if spec.events_per_rank is None:
        return spec
    few, many = (
        sum(_event_counts(replace(spec, events_per_rank=None, layers=layers * spec.shape.pp), 0, spec.steps).values())
        for layers in (8, 16)
    )
    per_layer = (many - few) / 8
    layers = max(1, round((spec.events_per_rank - few) / per_layer + 8))
    return replace(spec, events_per_rank=None, layers=layers * spec.shape.pp)


def _event_counts(spec: JobSpec, rank: int, steps: int) -> Counter[str]:
    counts: Counter[str] = Counter({"Trace": 1, "i": 2, "M": len(_metadata_texts(spec, rank, 0))})
    for text in _sections(spec, spec.stage_of(rank)).values():
        for cat, count in text.counts.items():
            counts[cat] += count * steps
    return counts


def _process_id(spec: JobSpec, rank: int) -> int:
    return 20_000 + 613 * (rank % spec.gpus_per_node) + rank // spec.gpus_per_node


def _rank_tokens(spec: JobSpec, rank: int) -> dict[str, str]:
    pid, stage = _process_id(spec, rank), spec.stage_of(rank)
    tokens = {
        "pid": str(pid),
        "autograd_tid": str(pid + 211),
        "device": str(rank % spec.gpus_per_node),
        "rank": str(rank),
        "stage": str(stage),
        "next_stage": str(stage + 1),
        "previous_stage": str(stage - 1),
    }
    for axis in _used_axes(spec):
        group = spec.group_of(axis, rank)
        tokens[f"{axis}_name"], tokens[f"{axis}_description"] = group.name, group.description
        tokens[f"{axis}_size"], tokens[f"{axis}_ranks"] = str(len(group.ranks)), _ranks_text(group)
    return tokens


def _ranks_text(group: ProcessGroup) -> str:
    shown = ", ".join(map(str, group.ranks[:_GROUP_RANKS_SHOWN]))
    return f"[{shown}, ...]" if len(group.ranks) > _GROUP_RANKS_SHOWN else f"[{shown}]"


def _used_axes(spec: JobSpec) -> list[Axis]:
    axes: tuple[Axis, ...] = ("pp", "dp", "tp")
    return [axis for axis in axes if spec.axis_size(axis) > 1]


def _distributed_info(spec: JobSpec, rank: int) -> dict[str, object]:
    groups = {"0": ProcessGroup(name="0", description="default_pg", ranks=tuple(range(spec.ranks)))}
    groups |= {group.name: group for group in (spec.group_of(axis, rank) for axis in _used_axes(spec))}
    config = [
        {
            "pg_name": group.name,
            "pg_desc": group.description,
            "backend_config": "cuda:nccl",
            "pg_size": len(group.ranks),
            "ranks": list(group.ranks),
        }
        for group in groups.values()
    ]
    return {
        "backend": "nccl",
        "rank": rank,
        "world_size": spec.ranks,
        "pg_count": len(config),
        "pg_config": config,
        "nccl_version": "2.27.5",
    }


def _metadata_texts(spec: JobSpec, rank: int, at_ns: int) -> list[str]:
    """Names of the process, its threads, the device and its streams."""
    pid, device = _process_id(spec, rank), rank % spec.gpus_per_node
    program = stage_program(spec, spec.stage_of(rank))
    streams = sorted({item.stream for item in program if item.stream is not None})
    rows: list[tuple[str, int, int, str]] = []
    for process, label, order in ((pid, "CPU", pid), (device, f"GPU {device}", 5_000_000 + device)):
        rows.append(("process_name", process, 0, '"name": "python"'))
        rows.append(("process_labels", process, 0, f'"labels": "{label}"'))
        rows.append(("process_sort_index", process, 0, f'"sort_index": {order}'))
    threads = ((pid, f"thread {pid} (python)"), (pid + 211, f"thread {pid + 211} (pt_autograd_0)"))
    for process, tid, name in (
        *((pid, tid, name) for tid, name in threads),
        *((device, stream, f"stream {stream} ") for stream in streams),
    ):
        rows.append(("thread_name", process, tid, f'"name": "{name}"'))
        rows.append(("thread_sort_index", process, tid, f'"sort_index": {tid}'))
    return [
        kineto_text.metadata_text(spec.text_layout, name=name, pid=process, tid=tid, at_ns=at_ns, args=args)
        for name, process, tid, args in rows
    ]


def _rank_truth(schedule: SimulatedJob, rank: int) -> RankTruth:
    spec, stage = schedule.spec, schedule.stage_of(rank)
    column = rank - stage.first_rank
    durations = (stage.device_end_ns[..., column] - stage.device_start_ns[..., column]).sum(axis=0)
    compute = np.array([item.kind == "compute" for item in stage.program])
    kernels = compute | np.array([item.message is not None for item in stage.program])
    starts, ends = stage.host_start_ns[:, 0, column], stage.host_end_ns[:, -1, column]
    return RankTruth(
        rank=rank,
        clock_offset_ns=spec.clock_offset_ns(rank),
        step_windows_ns=tuple(zip(starts.tolist(), ends.tolist(), strict=True)),
        kernel_ns=int(durations[kernels].sum()),
        compute_ns=int(durations[compute].sum()),
        events=dict(_event_counts(spec, rank, spec.steps)),
    )


def _collective_truths(schedule: SimulatedJob, stage: StageSchedule) -> Iterator[CollectiveTruth]:
    """Collectives of a stage, one entry per group and step. Point-to-point messages are not listed."""
    spec = schedule.spec
    for index, item in enumerate(stage.program):
        if item.kind != "collective" or item.message is None:
            continue
        groups = {group.name: group for group in (spec.group_of(item.message.axis, rank) for rank in stage.ranks)}
        for group in groups.values():
            columns = [rank - stage.first_rank for rank in group.ranks]
            for step in range(spec.steps):
                yield CollectiveTruth(
                    name=item.message.name,
                    step=step,
                    item=index,
                    group=group.name,
                    ranks=group.ranks,
                    arrivals_ns=tuple(stage.device_start_ns[step, index, columns].tolist()),
                    ends_ns=tuple(stage.device_end_ns[step, index, columns].tolist()),
                )


@contextmanager
def _opened(path: Path, compress: bool) -> Iterator[BinaryIO]:
    """A file that appears under its name only when it is complete."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as raw:
            if compress:
                # No name and no time in the header: the same trace gives the same bytes.
                with igzip.IGzipFile("", "wb", 1, raw, 0) as packed:  # type: ignore[no-untyped-call]
                    yield cast(BinaryIO, packed)
            else:
                yield raw
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
