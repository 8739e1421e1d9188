"""How often `watch` names a planted change within three windows, and how often it cries wolf.

python -m bench.fleet.watch [--set tuning|"set aside"|"set aside 2"|"set aside 3"] [--healthy WINDOWS] [--jobs N]

Each set aside has families of noise and seeds of its own, which nothing was tuned on (bench/fleet/watch_noise.py).
Windows enter as figures, as they come out of `diagnose`; tests/e2e/test_watch.py goes the whole way, from digests.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bench.fleet.watch_jobs import KINDS, RANKS_PER_NODE, Planted, PlantedChange, job_windows
from bench.fleet.watch_noise import FAMILIES, SEEDS, NoiseFamily, Random
from redline.watch.job_monitor import Alarm, AlarmKind, JobMonitor

WINDOWS = 500
IN_TIME = 3  # windows after the change, the first of them included
ONSETS = (60, 205, 350)  # changes of a job begin up to 20 windows later
LASTS = 90
_SETTLES = 40  # windows after a change has ended, in which its end may be named
_WAVE = 0.08  # of the step, that a day may hide of a drift
_OF_DRIFTS = 2.0  # times the threshold: from there on a drift is claimed to be named
_BY_KIND: dict[Planted, tuple[AlarmKind, tuple[str, ...]]] = {  # what must be said, and what else may be
    "step": (AlarmKind.STEP_SLOWER, ("step",)),
    "step drift": (AlarmKind.STEP_SLOWER, ("step",)),
    "rank": (AlarmKind.RANK_LATE, ("rank", "step")),
    "rank drift": (AlarmKind.RANK_LATE, ("rank", "step")),
    "node": (AlarmKind.NODE_LATE, ("node", "rank", "step")),
    "input": (AlarmKind.INPUT_GREW, ("input", "step")),
    "communication": (AlarmKind.COMMUNICATION_GREW, ("communication", "step")),
    "silent": (AlarmKind.RANK_SILENT, ("rank",)),
}


@dataclass(frozen=True, kw_only=True)
class PlantedScore:
    """A planted change and after how many windows it was named; None: not while it lasted."""

    change: PlantedChange
    ratio: float  # of its size to the smallest that watch says it tells
    named_after: int | None

    @property
    def in_time(self) -> bool:
        return self.named_after is not None and self.named_after <= IN_TIME


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet.watch", description=__doc__)
    parser.add_argument("--set", choices=sorted(FAMILIES), default="set aside 3", help="families and seeds")
    parser.add_argument("--healthy", type=int, default=200_000, metavar="WINDOWS", help="without a change, in all")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="of the healthy jobs, for several processes")
    parser.add_argument("--jobs", type=int, default=40, help="with planted changes, for each range of sizes")
    options = parser.parse_args()
    families, seed = FAMILIES[options.set], SEEDS[options.set]
    print(f"families: {', '.join(family.name for family in families)}; seeds from {seed:,}")
    if options.healthy:
        tell_false_alarms(families, seed, options.healthy, options.part)
    if not options.jobs:
        return 0
    for low, high in ((1.0, 2.0), (0.75, 1.0), (0.5, 0.75)):
        tell_named(families, seed + 500_000, options.jobs, (low, high))
    return 0


# --- healthy jobs -----------------------------------------------------------------------------------------------------


def tell_false_alarms(families: Sequence[NoiseFamily], seed: int, windows: int, part: str) -> None:
    first, parts = map(int, part.split("/"))
    jobs = range(first - 1, -(-windows // (WINDOWS * len(families))), parts)
    every, total = len(jobs) * WINDOWS * len(families), 0
    for family in families:
        alarms: Counter[str] = Counter()
        for job in jobs:
            alarms.update(str(alarm.kind) for _, alarm in alarms_of(family, seed + job, ()))
        total += sum(alarms.values())
        shown = f"{sum(alarms.values())} alarms in {len(jobs) * WINDOWS:,} windows {dict(alarms)}"
        print(f"healthy, {family.name}: {shown}", flush=True)
    print(f"healthy, all: {total} in {every:,} windows: {1e4 * total / every:.2f} per 10,000", flush=True)


def alarms_of(family: NoiseFamily, seed: int, changes: tuple[PlantedChange, ...]) -> Iterator[tuple[int, Alarm]]:
    monitor = JobMonitor()
    for window, figures in enumerate(job_windows(family, np.random.default_rng(seed), WINDOWS, changes)):
        for alarm in monitor.add(figures).alarms:
            yield window, alarm


# --- planted changes --------------------------------------------------------------------------------------------------


def tell_named(families: Sequence[NoiseFamily], seed: int, jobs: int, ratios: tuple[float, float]) -> None:
    scores: list[PlantedScore] = []
    unexplained = 0
    for job in range(jobs):
        family = families[job % len(families)]
        changes, drawn_ratios = planted(family, seed + job, job, ratios)
        said = list(alarms_of(family, seed + job, changes))
        for change, ratio in zip(changes, drawn_ratios, strict=True):
            scores.append(PlantedScore(change=change, ratio=ratio, named_after=named_after(change, said)))
        unexplained += sum(not any(may_be(change, window, alarm) for change in changes) for window, alarm in said)
    _tell_scores(scores, ratios, jobs, unexplained)


def planted(
    family: NoiseFamily, seed: int, job: int, ratios: tuple[float, float]
) -> tuple[tuple[PlantedChange, ...], list[float]]:
    """Three changes of a job, each so many times as large as watch says of the same job without it."""
    random = np.random.default_rng(seed + 1_000_000_000)
    onsets = [onset + int(random.integers(20)) for onset in ONSETS]
    kinds = [KINDS[(3 * job + number) % len(KINDS)] for number in range(len(onsets))]
    monitor, changes, drawn_ratios = JobMonitor(), [], []
    windows = job_windows(family, np.random.default_rng(seed), WINDOWS)  # of fewer windows, other noise is drawn
    for window, figures in enumerate(islice(windows, onsets[-1] + 1)):
        if window in onsets:
            kind, ratio = kinds[onsets.index(window)], float(random.uniform(*ratios))
            changes.append(_change(kind, window, ratio, monitor, random, len(figures.ranks)))
            drawn_ratios.append(ratio)
        monitor.add(figures)
    return tuple(changes), drawn_ratios


def _change(kind: Planted, window: int, ratio: float, monitor: JobMonitor, random: Random, ranks: int) -> PlantedChange:
    node = int(random.integers(ranks // RANKS_PER_NODE))
    rank = node * RANKS_PER_NODE + int(random.integers(RANKS_PER_NODE))
    smallest = monitor.smallest_shares(rank, f"node-{node}") | {"silent": 1.0}
    drifts = kind.endswith("drift")
    hidden = _WAVE if kind == "step drift" else 0.0
    return PlantedChange(
        kind=kind,
        window=window,
        size=ratio * smallest[kind] * (_OF_DRIFTS if drifts else 1.0) + hidden,
        subject={"rank": rank, "rank drift": rank, "silent": rank, "node": node}.get(kind, 0),
        until=window + LASTS,
        rise=LASTS // 2 if drifts else 1,
    )


def named_after(change: PlantedChange, said: Sequence[tuple[int, Alarm]]) -> int | None:
    """Windows until it was named, the first with it in full size included; a drift may be named earlier."""
    full = change.window + change.rise - 1
    wanted = _BY_KIND[change.kind][0]
    for window, alarm in said:
        if change.window <= window < change.until and alarm.kind is wanted and _is_of(change, alarm):
            return max(window - full + 1, 1)
    return None


def _is_of(change: PlantedChange, alarm: Alarm) -> bool:
    match change.kind:
        case "rank" | "rank drift" | "silent":
            return alarm.ranks == (change.subject,)
        case "node":
            return alarm.host == f"node-{change.subject}"
        case _:
            return True


def may_be(change: PlantedChange, window: int, alarm: Alarm) -> bool:
    """Whether an alarm tells of this change, of what follows from it, or of its end."""
    if not change.window <= window < change.until + _SETTLES:
        return False
    what = str(alarm.kind).partition("_")[0]
    if what == "rank" and change.kind != "node" and change.subject not in alarm.ranks:
        return False
    return what in _BY_KIND[change.kind][1]


def _tell_scores(scores: Sequence[PlantedScore], ratios: tuple[float, float], jobs: int, unexplained: int) -> None:
    print(f"\nplanted in {jobs} jobs, {ratios[0]} to {ratios[1]} times what watch says is the smallest:")
    for kind in KINDS:
        of_kind = [score for score in scores if score.change.kind == kind]
        if not of_kind:
            continue
        sizes = np.percentile([score.change.size for score in of_kind], [10, 50, 90])
        shown = " / ".join(f"{100 * size:.1f}" for size in sizes)
        named = sum(score.in_time for score in of_kind)
        ever = sum(score.named_after is not None for score in of_kind)
        print(f"  {kind:14} {named:3} of {len(of_kind):3} in time, {ever:3} at all; sizes p10/p50/p90 {shown} %")
    named = sum(score.in_time for score in scores)
    print(f"  all            {named} of {len(scores)} in time: {100 * named / len(scores):.1f} %")
    print(f"  alarms that no change explains: {unexplained} in {jobs * WINDOWS:,} windows", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
