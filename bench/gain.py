"""What mending a case gains, measured without Redline: flawed against healthy, in turns, with its interval."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.capture import TIMEOUT_S, TWINS, CannotRunError, Twin, finished, python_of, window_of
from bench.cases import HERE, Case
from tests.support.traces.synthetic import Truth

Floats = npt.NDArray[np.float64]

STEPS = 24
WARM_UP = 4  # first steps of a run that are not counted
RESAMPLES = 2000
INTERVAL = (2.5, 97.5)  # percentiles of the resampled gains


@dataclass(frozen=True, kw_only=True)
class Gain:
    """The share of the flawed step that the healthy twin saves, and between which values 95 % of resamples lie."""

    wall: float
    wall_low: float
    wall_high: float
    cpu: float  # of the CPU time of rank 0, which other processes on the machine change less
    flawed_ms: float
    healthy_ms: float
    repeats: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Of one run: nanoseconds of each step after the first ones."""

    wall_ns: Floats
    cpu_ns: Floats


def measured_gain(case: Case, folder: Path, repeats: int) -> Gain:
    """Run both twins of a job in turns; the order changes from turn to turn."""
    reports: dict[Twin, list[dict[str, Any]]] = {"flawed": [], "healthy": []}
    for turn in range(repeats):
        for twin in TWINS if turn % 2 == 0 else reversed(TWINS):
            reports[twin].append(_report(case, twin, folder / f"steps-{twin}-{turn}.json"))
    marked = all(len(report["wall_ns"]) - 2 >= report["steps"] for runs in reports.values() for report in runs)
    times = {twin: [_times(report, case, marked=marked) for report in runs] for twin, runs in reports.items()}
    return _gain(times["flawed"], times["healthy"], by_mean=case.label.pattern != "every step" or not marked)


def simulated_gain(flawed: Truth, healthy: Truth) -> Gain:
    """The same of two timelines, whose steps are known."""
    return _gain([_true_times(flawed)], [_true_times(healthy)], by_mean=True)


def _report(case: Case, twin: Twin, target: Path) -> dict[str, Any]:
    ranks = case.label.ranks
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    steps = STEPS if window_of(case)[0] else window_of(case)[1]  # first steps: as many as are captured
    clock = [str(HERE / "stepclock.py"), str(case.path), twin, "--steps", str(steps), "--report", str(target)]
    target.parent.mkdir(parents=True, exist_ok=True)
    code, output = finished([python_of(case), *launch, *clock], case, TIMEOUT_S)
    if code:
        raise CannotRunError(f"the {twin} twin without Redline ended with {code}: {output[-200:]}")
    report: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    return report


def _times(report: dict[str, Any], case: Case, *, marked: bool) -> StepTimes:
    """From optimizer to optimizer; of a job without one, the whole time over the steps."""
    wall, cpu = (np.asarray(report[name], np.float64) for name in ("wall_ns", "cpu_ns"))
    steps = int(report["steps"])
    if not marked:
        return StepTimes(wall_ns=_whole(wall, steps), cpu_ns=_whole(cpu, steps))
    calls = (len(wall) - 2) // steps  # of all optimizers, in a step
    skipped = 0 if case.label.pattern == "first steps" else WARM_UP
    return StepTimes(
        wall_ns=np.diff(wall[:-1][::calls])[skipped:],
        cpu_ns=np.diff(cpu[:-1][::calls])[skipped:],
    )


def _whole(stamps: Floats, steps: int) -> Floats:
    return np.array([(stamps[-1] - stamps[0]) / steps])


def _true_times(truth: Truth) -> StepTimes:
    windows = np.asarray([rank.step_windows_ns for rank in truth.ranks], np.float64)
    longest = (windows[:, :, 1] - windows[:, :, 0]).max(axis=0)
    return StepTimes(wall_ns=longest, cpu_ns=longest)


def _gain(flawed: list[StepTimes], healthy: list[StepTimes], *, by_mean: bool) -> Gain:
    """Runs are drawn again, and steps within them: both runs and steps differ by chance."""
    random = np.random.default_rng(0)

    def typical(runs: list[Floats]) -> float:
        return float(np.mean([np.mean(run) if by_mean else np.median(run) for run in runs]))

    def drawn(runs: list[Floats]) -> float:
        chosen = [runs[index] for index in random.integers(0, len(runs), len(runs))]
        return typical([run[random.integers(0, len(run), len(run))] for run in chosen])

    wall = {"flawed": [run.wall_ns for run in flawed], "healthy": [run.wall_ns for run in healthy]}
    cpu = {"flawed": [run.cpu_ns for run in flawed], "healthy": [run.cpu_ns for run in healthy]}
    resampled = [1 - drawn(wall["healthy"]) / drawn(wall["flawed"]) for _ in range(RESAMPLES)]
    low, high = np.percentile(resampled, INTERVAL)
    flawed_ns, healthy_ns = typical(wall["flawed"]), typical(wall["healthy"])
    return Gain(
        wall=1 - healthy_ns / flawed_ns,
        wall_low=float(low),
        wall_high=float(high),
        cpu=1 - typical(cpu["healthy"]) / max(typical(cpu["flawed"]), 1.0),
        flawed_ms=flawed_ns / 1e6,
        healthy_ms=healthy_ns / 1e6,
        repeats=len(flawed),
    )
