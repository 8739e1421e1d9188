"""What `redline run` costs: the same training bare, watched, and with the default capture, in turns.

    python scripts/benchmark_run.py --rounds 10 --steps 1000

Each round starts a small GPT on one core three times, in changing order. Printed are ratios to the bare run of the same
round, as the median over rounds with its quartiles: of the CPU time of all processes together (the job, the watcher,
and the one that writes the trace), of wall time, and of both for the training loop alone; and the ratio of the least
CPU times, because others on the machine only ever add to them.

Where the CPU time of the same work varies by more than what is looked for, differences of runs tell little. So what
Redline spends is also added up from what it has measured of itself, as a share of the bare run: the watcher's own CPU
time, that of the writer, the time in which the job stood still for a window, and by how much captured steps were longer
than the others. Not in it are the hooks themselves: `tests/e2e/programs/hook_cost.py` measures them apart.

With --together the three runs of a round share the core at the same time. Then their wall times mean nothing, but what
disturbs one disturbs the others as well: this gives usable ratios of CPU time on a machine that is never quiet.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

PROGRAM = Path(__file__).parents[1] / "tests" / "e2e" / "programs" / "timed_gpt.py"
WAYS = {"bare": None, "watched": ("--watch-only",), "captured": ()}
GOALS = {"watched": 1.01, "captured": 1.02}  # of CPU time


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds of a run: of all its processes, and of the loop in it."""

    cpu_s: float
    wall_s: float
    loop_cpu_s: float
    loop_wall_s: float
    loss: float
    accounted_s: float
    """That Redline has measured of itself."""


def start(way: str, folder: Path, steps: int, batch: int) -> subprocess.Popen[bytes]:
    options = WAYS[way]
    command = [sys.executable]
    if options is not None:
        command += ["-m", "redline", "run", "--quiet", "-o", str(folder / way), *options, "--"]
    command += [str(PROGRAM), "--steps", str(steps), "--batch", str(batch)]
    with (folder / f"{way}.json").open("wb") as output:
        return subprocess.Popen(command, stdout=output)


def spent(folder: Path) -> tuple[float, float]:
    """CPU seconds of the writer, which is nobody's child, and all seconds that Redline knows it has cost."""
    if not folder.exists():
        return 0.0, 0.0
    record = json.loads((folder / "run.json").read_text())
    (rank,) = record["ranks"]
    windows = rank["windows"]
    writer_ns = sum(window["writing_cpu_ns"] for window in windows)
    longer_ns = sum(max(0, window["length_ns"] - window["steps"] * rank["step_ns"]) for window in windows)
    return writer_ns / 1e9, (record["watcher_cpu_ns"] + writer_ns + rank["capture_cost_ns"] + longer_ns) / 1e9


def costs_of(ways: Sequence[str], steps: int, batch: int) -> dict[str, Cost]:
    """Of runs that are started at once; one of them alone has the core for itself."""
    costs = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        began_s = time.perf_counter()
        started = [(way, start(way, folder, steps, batch)) for way in ways]
        running = {process.pid: (way, process) for way, process in started}
        while running:
            pid, status, usage = os.wait4(-1, 0)
            way, process = running.pop(pid)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode or (way == "captured" and not list(folder.glob("captured/window-1/*.gz"))):
                sys.exit(f"{way}: the run failed, or left no trace")
            told = json.loads((folder / f"{way}.json").read_text())
            writer_s, accounted_s = spent(folder / way)
            costs[way] = Cost(
                cpu_s=usage.ru_utime + usage.ru_stime + writer_s,
                accounted_s=accounted_s,
                wall_s=time.perf_counter() - began_s,
                loop_cpu_s=told["cpu_s"],
                loop_wall_s=told["wall_s"],
                loss=told["loss"],
            )
    return costs


def measured(rounds: int, steps: int, batch: int, *, together: bool) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for number in range(rounds):
        order = list(WAYS)[:: 1 if number % 2 else -1]
        for ways in [order] if together else [[way] for way in order]:
            for way, one in costs_of(ways, steps, batch).items():
                costs[way].append(one)
                print(f"round {number + 1}: {way:9} {one}", file=sys.stderr, flush=True)
    return costs


def shown(name: str, ratios: list[float]) -> str:
    low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    return f"  {name:16} {middle:.4f}  (quartiles {low:.4f} to {high:.4f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--together", action="store_true", help="run the three of a round at the same time")
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    costs = measured(options.rounds, options.steps, options.batch, together=options.together)
    bare = costs.pop("bare")
    print(f"bare: {median(one.cpu_s for one in bare):.2f} s of CPU time, {len(bare)} rounds of {options.steps} steps")
    kept = True
    for way, some in costs.items():
        pairs = list(zip(some, bare, strict=True))
        print(f"{way}, as a ratio to bare:")
        print(shown("CPU", [one.cpu_s / other.cpu_s for one, other in pairs]))
        least = min(one.cpu_s for one in some) / min(one.cpu_s for one in bare)
        print(f"  least CPU        {least:.4f}")
        print(shown("CPU of the loop", [one.loop_cpu_s / other.loop_cpu_s for one, other in pairs]))
        if not options.together:
            print(shown("wall", [one.wall_s / other.wall_s for one, other in pairs]))
            print(shown("wall of the loop", [one.loop_wall_s / other.loop_wall_s for one, other in pairs]))
        print(shown("accounted for", [1 + one.accounted_s / other.cpu_s for one, other in pairs]))
        more_s = [one.cpu_s - one.loop_cpu_s - other.cpu_s + other.loop_cpu_s for one, other in pairs]
        print(f"  outside of the loop {median(more_s):+.3f} s of CPU time")
        kept &= median(one.cpu_s / other.cpu_s for one, other in pairs) <= GOALS[way]
    losses = {one.loss for some in (bare, *costs.values()) for one in some}
    print("losses are equal" if len(losses) == 1 else "LOSSES DIFFER")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
