"""How well steps are replayed: exactly, by rules alone, and forecasts against what was realised. Prints tables.

REDLINE_TRACES=... python -m bench.replay.score traces      every published trace: replay with no change, and by rules
REDLINE_TRACES=... python -m bench.replay.score pairs       traces before and after a fix
python -m bench.replay.score generator CHANGE FIRST JOBS    so many made jobs, from the seed FIRST on, against the
                                                              same jobs made with the change (see MADE_CHANGES); seeds
                                                              below 1000 were developed on, those below 3000 have been
                                                              scored
python -m bench.replay.score exact TRACE|FOLDER             replay with no change, of each rank and of all of a folder
python -m bench.replay.score exact bench                    of the GPU timelines of the bench
python -m bench.replay.score exact made FIRST JOBS          of made jobs
python -m bench.replay.score cost TRACE                     CPU time with one and with many scenarios, without a cache
"""

import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from time import process_time
from typing import Literal

import numpy as np

import redline
from bench.cases import specs_of
from bench.forecasts import cases_of
from redline.errors import RedlineError
from redline.job.read_files import JobOptions
from redline.replay.forecast import Forecast, JobReplay, rank_replay
from redline.replay.replay import replayed
from redline.replay.scenario_text import parse_scenario
from redline.timeline.timeline import Kind, Timeline
from redline.trace.reader import read_file
from redline.trace.steps import ENGINE_ANCHOR
from tests.support.traces.jobspec import MIN_LAUNCH_US, JobSpec, ParallelSizes, Straggler
from tests.support.traces.synthetic import write_job

READING = JobOptions(jobs=1, use_cache=False)
LEAST_WORK = 20  # pieces of device work: with fewer there is nothing to replay


def traces_folder() -> Path:
    return Path(os.environ["REDLINE_TRACES"])


# --- every trace ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TraceScore:
    """One rank of a published trace."""

    name: str
    bound_by: str  # device, host, or engine
    off_ns: int  # of the point that is farthest from where it was measured, with nothing changed
    error: float  # of all steps, by rules alone
    unexplained: float  # share of device starts
    points: int
    edges: int
    cpu_s: float  # of building the graph and replaying it once
    declined: str


def score_trace(name: str, timeline: Timeline) -> TraceScore:
    begun = process_time()
    replay = JobReplay([rank_replay(timeline)], ())
    off_ns = _farthest_ns(replay)
    cpu_s = process_time() - begun
    (graph,) = replay.job.graphs
    return TraceScore(
        name=f"{name} rank {timeline.rank}",
        bound_by=bound_by(timeline),
        off_ns=off_ns,
        error=replay.error_by_rules,
        unexplained=graph.explained.share,
        points=len(graph),
        edges=len(graph.edges),
        cpu_s=cpu_s,
        declined=replay.declined,
    )


def bound_by(timeline: Timeline) -> str:
    """Of kernels twice as fast and a host twice as fast, which gains more."""
    if timeline.step_anchor == ENGINE_ANCHOR:
        return "engine"
    scenarios = [parse_scenario(text) for text in ("kernels/2, collectives/2, copies/2", "host/2")]
    replay = JobReplay([rank_replay(timeline, scenarios)], scenarios)
    gains = []
    for number in range(2):
        starts, ends, _ = replay.borders(replay.times_ns(number))
        gains.append(int(ends.max() - starts.min()) if len(starts) else 0)
    return "device" if gains[0] < gains[1] else "host"


def score_traces() -> None:
    scores = []
    for path in sorted(traces_folder().rglob("*.json.gz")):
        try:
            timelines = read_file(path).timelines
        except RedlineError:
            continue
        for timeline in timelines:
            if len(timeline.device_work) >= LEAST_WORK:
                score = score_trace(path.name, timeline)
                scores.append(score)
                print(
                    f"{score.name[:58]:58} {score.bound_by:6} off {score.off_ns} ns  by rules {score.error:+8.2%}  "
                    f"unexplained {score.unexplained:6.1%}  points {score.points:6}  edges {score.edges:6}  "
                    f"{score.cpu_s:.2f} s{'  declined' if score.declined else ''}",
                    flush=True,
                )
    for bound in ("device", "host", "engine"):
        _summary(bound, [score.error for score in scores if score.bound_by == bound])
    _summary("all but engines", [score.error for score in scores if score.bound_by != "engine"])
    _summary("not declined", [score.error for score in scores if not score.declined])
    print(f"largest difference of a replay with nothing changed: {max(score.off_ns for score in scores)} ns")


def _summary(name: str, errors: Sequence[float]) -> None:
    if errors:
        sizes = np.abs(errors)
        within = "  ".join(f"within {limit:.1%}: {(sizes <= limit).mean():.0%}" for limit in (0.01, 0.033, 0.1))
        print(f"{name}: {len(sizes)}, median {np.median(sizes):.3%}, worst {sizes.max():.1%}, {within}")


# --- before and after -------------------------------------------------------------------------------------------------


def score_pairs() -> None:
    folder = traces_folder()
    for before, after, text in PAIRS:
        ranks, (y, *_) = (read_file(folder / name).timelines for name in (before, after))
        scenario = parse_scenario(text)
        (forecast,) = JobReplay([rank_replay(rank, [scenario]) for rank in ranks], [scenario]).forecasts()
        _print_pair(f"{before} -> {after}", forecast, float(np.median(_steps_ns(y))))
    for before, after in NAMED_PAIRS:
        x, y = (read_file(folder / name).timelines[0] for name in (before, after))
        texts = list(_kernel_times(x, y))
        scenario = parse_scenario(texts[0])
        changes = tuple(change for text in texts for change in parse_scenario(text).changes)
        scenario = replace(scenario, name="kernels as after", changes=changes)
        (forecast,) = JobReplay([rank_replay(x, [scenario])], [scenario]).forecasts()
        _print_pair(f"{before} -> {after}", forecast, float(np.median(_steps_ns(y))))


PAIRS = (
    (
        "tb_resnet50_num_workers_0_1623143089861.pt.trace.json.gz",
        "tb_resnet50_num_workers_4_1623212756351.pt.trace.json.gz",
        "loader=0",
    ),
    (
        "tb_resnet50_num_workers_0_1623143566756.pt.trace.json.gz",
        "tb_resnet50_num_workers_4_1623213129365.pt.trace.json.gz",
        "loader=0",
    ),
    (
        "h20_ddp_2ranks_merged.json.gz",
        "h20_single.json.gz",
        "collectives=0, remove c10d::, remove torch.distributed.ddp.reducer",
    ),
)
NAMED_PAIRS: tuple[tuple[str, str], ...] = (  # where the change is told by the kernels of the trace after it
    ("sam_amg_False_9566500c.json.gz", "sam_amg_True_9566500c.json.gz"),
    ("sam_amg_False_4be6279a.json.gz", "sam_amg_True_4be6279a.json.gz"),
    ("hta_tracediff_control.json.gz", "hta_tracediff_test.json.gz"),
)


def _kernel_times(x: Timeline, y: Timeline) -> Iterator[str]:
    """Kernels whose time changed, as changes: all that are new together take what the ones that are gone took."""
    before, after = _times_of_names(x), _times_of_names(y)
    gone = [name for name in before if name not in after]
    new_ns = sum(after[name] for name in after if name not in before)
    gone_ns = sum(before[name] for name in gone)
    for name, time_ns in before.items():
        factor = new_ns / max(gone_ns, 1) if name in gone else after[name] / max(time_ns, 1)
        if abs(factor - 1) > 0.2:
            quoted = name.replace('"', '""')
            yield f'kernels("{quoted}")*{min(max(factor, 1e-6), 1e6):.9f}'


def _times_of_names(timeline: Timeline) -> dict[str, int]:
    spans, rows = timeline.spans, timeline.spans.rows_of(Kind.KERNEL)
    times: dict[str, int] = {}
    for name, dur_ns in zip(spans.name[rows].tolist(), spans.dur_ns[rows].tolist(), strict=True):
        times[timeline.texts[name]] = times.get(timeline.texts[name], 0) + dur_ns
    return times


def _steps_ns(timeline: Timeline) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    replay = JobReplay([rank_replay(timeline)], ())
    starts, ends, _ = replay.borders(replay.job.time_ns)
    return ends - starts


def _print_pair(name: str, forecast: Forecast, realised_ns: float) -> None:
    measured, predicted = float(np.median(forecast.measured_step_ns)), float(np.median(forecast.step_ns))
    print(
        f"{name}: {forecast.scenario.name}: step {measured / 1e6:.2f} ms, forecast {predicted / 1e6:.2f}, "
        f"realised {realised_ns / 1e6:.2f}: off by {predicted / realised_ns - 1:+.1%} of the realised step "
        f"{forecast.declined}"
    )


# --- made jobs --------------------------------------------------------------------------------------------------------


def made_job(seed: int) -> JobSpec:
    """1 to 64 ranks, of any layout, limited by the host, the input, the device or the network."""
    chance = random.Random(seed)
    ranks = chance.choice([1, 1, 2, 4, 8, 8, 16, 32, 64])
    half = max(ranks // 2, 1)
    layouts = [None, ParallelSizes(dp=half, tp=2), ParallelSizes(dp=half, pp=2), None]
    layout = chance.choice(layouts) if ranks >= 4 else None
    is_pipeline = layout is not None and layout.pp > 1
    return JobSpec(
        ranks=ranks,
        steps=3,
        layers=chance.choice([2, 4]),
        layout=layout,
        microbatches=4 if is_pipeline else chance.choice([1, 2]),
        step_compute_us=chance.uniform(1_500, 20_000),
        launch_us=chance.uniform(3, 12),
        input_us=chance.uniform(50, 4_000),
        collectives=chance.choice(["all_reduce", "all_gather_reduce_scatter"]),
        buckets=chance.choice([2, 4]),
        network_gb_per_s=chance.choice([10.0, 40.0]),
        sync_each_step=chance.random() < 0.7,
        seed=seed,
    )


@dataclass(frozen=True, kw_only=True)
class MadeChange:
    """What is asked of which job, and the job in which it is so."""

    scenario: str
    asked: JobSpec
    true: JobSpec


def kernels_half(spec: JobSpec) -> MadeChange:
    return MadeChange(scenario="kernels/2", asked=spec, true=replace(spec, step_compute_us=spec.step_compute_us / 2))


def collectives_free(spec: JobSpec) -> MadeChange:
    """All ranks leave an exchange when the last has come."""
    true = replace(spec, collective_latency_us=0.0, end_jitter_us=0.0, link_gb_per_s=FREE, network_gb_per_s=FREE)
    return MadeChange(scenario="collectives=0", asked=spec, true=true)


def loader_gone(spec: JobSpec) -> MadeChange:
    return MadeChange(scenario="loader=0", asked=spec, true=replace(spec, input_us=0.0))


def host_half(spec: JobSpec) -> MadeChange:
    true = replace(spec, launch_us=max(spec.launch_us / 2, MIN_LAUNCH_US))
    return MadeChange(scenario="host/2", asked=spec, true=true)


def network_twice(spec: JobSpec) -> MadeChange:
    true = replace(spec, network_gb_per_s=2 * spec.network_gb_per_s, link_gb_per_s=2 * spec.link_gb_per_s)
    return MadeChange(scenario="network*2", asked=spec, true=true)


def like_the_others(spec: JobSpec) -> MadeChange:
    """One rank was slower: on the device, on the host, or in its loader."""
    chance = random.Random(spec.seed)
    rank, extra_us = chance.randrange(spec.ranks), 0.3 * spec.step_compute_us
    straggler = Straggler(rank=rank, extra_us=extra_us, where=chance.choice(WHERE_SLOW))
    return MadeChange(scenario=f"rank {rank} like the others", asked=replace(spec, stragglers=(straggler,)), true=spec)


FREE = 1e9  # GB/s
WHERE_SLOW: tuple[Literal["compute", "host", "input"], ...] = ("compute", "host", "input")
MADE_CHANGES: dict[str, Callable[[JobSpec], MadeChange]] = {
    "kernels/2": kernels_half,
    "collectives=0": collectives_free,
    "loader=0": loader_gone,
    "host/2": host_half,
    "like the others": like_the_others,
    "network*2": network_twice,
}
OF_SEVERAL_RANKS = ("collectives=0", "like the others", "network*2")


def made_forecast(change: MadeChange) -> tuple[float, str]:
    """How far off the steps are together, as a share of what they truly take, and why there is no forecast."""
    return _error_of(change, total_ns(change.true))


def _error_of(change: MadeChange, true_ns: int) -> tuple[float, str]:
    scenario = parse_scenario(change.scenario)
    asked = [rank_replay(timeline, [scenario]) for timeline in made(change.asked)]
    (forecast,) = JobReplay(asked, [scenario]).forecasts()
    return forecast.total_ns / true_ns - 1, forecast.declined


def total_ns(spec: JobSpec) -> int:
    """Of all steps of a made job."""
    replay = JobReplay([rank_replay(timeline) for timeline in made(spec)], ())
    starts, ends, _ = replay.borders(replay.job.time_ns)
    return int(ends.max() - starts.min())


def score_generator(name: str, first: int, jobs: int) -> None:
    """The first so many jobs, by seed, of which this can be asked, with waits between streams recorded and without."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    specs = (spec for spec in map(made_job, count(first)) if spec.ranks > 1 or name not in OF_SEVERAL_RANKS)
    for spec in islice(specs, jobs):
        change = MADE_CHANGES[name](spec)
        true_ns = total_ns(change.true)
        said = []
        for is_recorded in errors:
            error, why = _error_of(replace(change, asked=replace(change.asked, sync_events=is_recorded)), true_ns)
            errors[is_recorded] += [] if why else [error]
            said.append(why or f"{error:+8.3%}")
        print(f"{spec.seed} {spec.ranks:2} ranks {change.scenario:28} {'  '.join(said)}", flush=True)
    for is_recorded, of_kind in errors.items():
        kind = f"{name}, {'recorded waits' if is_recorded else 'no waits recorded'}, {jobs - len(of_kind)} declined"
        _summary(kind, of_kind)


def made(spec: JobSpec) -> list[Timeline]:
    with tempfile.TemporaryDirectory() as folder:
        write_job(spec, Path(folder), compress=False)
        read = [timeline for path in sorted(Path(folder).glob("rank*.json")) for timeline in read_file(path).timelines]
    return sorted(read, key=lambda timeline: timeline.rank)


# --- cost -------------------------------------------------------------------------------------------------------------

COST_ROUNDS = 3
MANY = 64  # as many as --what-if may be given


def score_cost(path: Path) -> None:
    """CPU time of a diagnosis alone, with one what-if, and with 64, in turns; and of the pass over the graph alone."""
    many = [f"{target}/{2 + place / 4:g}" for target in ("kernels", "host") for place in range(MANY // 2)]
    cases: dict[str, Callable[[], object]] = {
        "diagnose": lambda: redline.diagnose(path, options=READING),
        "with 1 what-if": lambda: redline.diagnose(path, options=READING, what_if=many[:1]),
        f"with {MANY}": lambda: redline.diagnose(path, options=READING, what_if=many),
        **_passes(path, many),
    }
    times_s = _in_turns(cases)
    for name, of_case in times_s.items():
        print(f"{name:24} {np.median(of_case):8.3f} s  ({min(of_case):.3f} to {max(of_case):.3f})")


def _passes(path: Path, texts: Sequence[str]) -> dict[str, Callable[[], object]]:
    (timeline,) = read_file(path).timelines
    replay = JobReplay([rank_replay(timeline)], ())
    edges, plan = replay.job.edges, replay.plan
    delays_ns = np.repeat(edges.delay_ns[:, None], len(texts), axis=1)
    return {
        "a pass of 1": lambda: replayed(edges, plan, delays_ns[:, :1], 0),
        f"a pass of {len(texts)}": lambda: replayed(edges, plan, delays_ns, 0),
    }


def _in_turns(cases: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    times_s: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(COST_ROUNDS):
        for name, case in cases.items():
            begun_s = process_time()
            case()
            times_s[name].append(process_time() - begun_s)
    return times_s


# --- exactly ----------------------------------------------------------------------------------------------------------


def score_exact(jobs: Iterable[tuple[str, list[Timeline]]]) -> None:
    """How far a replay with nothing changed is off."""
    off_ns = []
    for name, timelines in jobs:
        off_ns.append(_farthest_ns(JobReplay([rank_replay(timeline) for timeline in timelines], ())))
        print(f"{name[:70]:70} {len(timelines):2} ranks off {off_ns[-1]} ns", flush=True)
    print(f"{len(off_ns)} replays, off by at most {max(off_ns, default=0)} ns")


def jobs_made(first: int, jobs: int) -> Iterator[tuple[str, list[Timeline]]]:
    return ((f"made {seed}", made(made_job(seed))) for seed in range(first, first + jobs))


def jobs_of_bench() -> Iterator[tuple[str, list[Timeline]]]:
    """Both twins of each GPU timeline."""
    for case in cases_of("timeline"):
        for is_flawed in (True, False):
            yield f"{case.title} {'flawed' if is_flawed else 'healthy'}", made(specs_of(case)(is_flawed))


def jobs_of(path: Path) -> Iterator[tuple[str, list[Timeline]]]:
    """Each rank by itself, and the ranks of a folder as one job."""
    of_folder: list[Timeline] = []
    for file in sorted(path.rglob("*.json*")) if path.is_dir() else [path]:
        try:
            timelines = read_file(file).timelines
        except RedlineError as error:
            print(f"{file.name}: not read: {str(error).splitlines()[0]}", flush=True)
            continue
        of_folder += timelines
        yield from ((file.name, [timeline]) for timeline in timelines)
    if len(of_folder) > 1 and len({timeline.rank for timeline in of_folder}) == len(of_folder):
        yield path.name, sorted(of_folder, key=lambda timeline: timeline.rank)


def _farthest_ns(replay: JobReplay) -> int:
    """Of the point that is farthest from where it was measured, with nothing changed."""
    edges = replay.job.edges
    times_ns = replayed(edges, replay.plan, edges.delay_ns[:, None], 0)[:, 0]
    return int(np.abs(times_ns - replay.job.time_ns).max(initial=0))


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["traces"]:
            score_traces()
        case ["pairs"]:
            score_pairs()
        case ["generator", name, first, jobs] if name in MADE_CHANGES:
            score_generator(name, int(first), int(jobs))
        case ["cost", path]:
            score_cost(Path(path))
        case ["exact", "made", first, jobs]:
            score_exact(jobs_made(int(first), int(jobs)))
        case ["exact", "bench"]:
            score_exact(jobs_of_bench())
        case ["exact", path]:
            score_exact(jobs_of(Path(path)))
        case _:
            print(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
