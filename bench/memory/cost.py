"""What `redline run --memory` costs: python -m bench.memory.cost --out FOLDER [--size small] [--turns N]

One training job in turns: bare, under `redline run`, and under `redline run --memory`, in changing order. Every figure
is a ratio to the bare run of the same turn. CPU time says more than wall time on a machine that others use. Turns that
are in the folder already are read, not run again.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

JOB = Path(__file__).with_name("cost_job.py")
WINDOW = ("--after", "12", "--steps", "6", "--timed-after", "0", "--max-memory", "4GiB")
WAYS: dict[str, tuple[str, ...] | None] = {"bare": None, "run": WINDOW, "memory": (*WINDOW, "--memory")}
_WARM_STEPS = 4  # the first ones allocate


@dataclass(frozen=True, kw_only=True)
class RunCost:
    """Of all processes of a run, and of each step of its job."""

    cpu_s: float
    wall_s: float
    steps: list[tuple[float, float]]
    """Wall and CPU seconds."""
    losses: list[str]
    window: tuple[int, int]
    """The first captured step and the one after the last, counted from 0; both 0 in a bare run."""
    stall_s: float
    writing_cpu_s: float
    trace_bytes: int
    raw_bytes: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory.cost", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where runs and results are kept")
    parser.add_argument("--size", choices=("large", "small"), default="large", help="of the model")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    turns = [_turn(options.out / f"turn-{number}", number, options.size) for number in range(options.turns)]
    for line in table(turns):
        print(line)
    return 0


def _turn(folder: Path, number: int, size: str) -> dict[str, RunCost]:
    names = [*WAYS][number % len(WAYS) :] + [*WAYS][: number % len(WAYS)]
    costs = {name: _cost(folder, name, size) for name in names}
    return {name: costs[name] for name in WAYS}


def _cost(folder: Path, name: str, size: str) -> RunCost:
    kept = folder / f"{name}.json"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / name, ignore_errors=True)  # of a run that was interrupted
        kept.write_text(json.dumps(asdict(_run(folder / name, WAYS[name], size))), encoding="utf-8")
    return RunCost(**json.loads(kept.read_text(encoding="utf-8")))


def _run(folder: Path, options: tuple[str, ...] | None, size: str) -> RunCost:
    words = [sys.executable]
    if options is not None:
        words += ["-m", "redline", "run", "-q", "-o", str(folder), *options, "--"]
    began_s = time.perf_counter()
    with subprocess.Popen([*words, str(JOB), size], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(words)}: ended with {process.returncode}")
    window = _window(folder) if options is not None else {}
    writing_cpu_s = window.get("writing_cpu_ns", 0) / 1e9
    first = window.get("first_step", 1) - 1
    return RunCost(
        cpu_s=usage.ru_utime + usage.ru_stime + writing_cpu_s,  # who writes the trace is nobody's child
        wall_s=time.perf_counter() - began_s,
        steps=told["steps"],
        losses=told["losses"],
        window=(first, first + window.get("steps", 0)),
        stall_s=window.get("stall_ns", 0) / 1e9,
        writing_cpu_s=writing_cpu_s,
        trace_bytes=window.get("size_bytes", 0),
        raw_bytes=window.get("raw_bytes", 0),
    )


def _window(folder: Path) -> Mapping[str, int]:
    (rank,) = json.loads((folder / "run.json").read_text(encoding="utf-8"))["ranks"]
    (window,) = rank["windows"]
    known: Mapping[str, int] = window
    return known


def table(turns: Sequence[Mapping[str, RunCost]]) -> Iterator[str]:
    """A line per figure: the median over turns, and its range."""
    first = turns[0]["bare"]
    are_same = all(cost.losses == first.losses for turn in turns for cost in turn.values())
    yield f"{len(turns)} turns of {len(first.steps)} steps; losses {'the same to the bit' if are_same else 'DIFFER'}"
    for name in [way for way in WAYS if way != "bare"]:
        costs = [(turn["bare"], turn[name]) for turn in turns]
        yield f"{name}: ratios to the bare run of the same turn, median (lowest to highest)"
        yield f"  CPU time of all processes    {_spread([cost.cpu_s / bare.cpu_s for bare, cost in costs])}"
        yield f"  wall time                    {_spread([cost.wall_s / bare.wall_s for bare, cost in costs])}"
        for place in ("inside", "outside"):
            for number, kind in enumerate(("wall", "CPU")):
                ratios = [_step(cost, cost, place, number) / _step(bare, cost, place, number) for bare, cost in costs]
                yield f"  {kind:4} time of steps {place:7}   {_spread(ratios)}"
        yield f"  job stood still, s           {_spread([cost.stall_s for _, cost in costs])}"
        yield f"  CPU s of writing the trace   {_spread([cost.writing_cpu_s for _, cost in costs])}"
        yield f"  trace, MB                    {_spread([cost.trace_bytes / 1e6 for _, cost in costs])}"
        yield f"  trace before gzip, MB        {_spread([cost.raw_bytes / 1e6 for _, cost in costs])}"


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def _step(cost: RunCost, windowed: RunCost, place: str, number: int) -> float:
    """The median step in or out of a window. The steps beside it, in which it opens and closes, are neither."""
    begin, end = windowed.window
    inside = range(begin, end)
    outside = [step for step in range(_WARM_STEPS, len(cost.steps)) if not begin - 2 <= step <= end + 1]
    return median(cost.steps[step][number] for step in (inside if place == "inside" else outside))


if __name__ == "__main__":
    raise SystemExit(main())
