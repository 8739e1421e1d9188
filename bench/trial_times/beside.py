"""The same two programs in Redline, hyperfine and pyperf: what each of them says of a known difference."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.trial_times.processes import PLAIN, program, try_processes

RUNS = 30  # of each program, for hyperfine and pyperf


def compare_with_others(extra: int, seed: int) -> dict[str, object]:
    """One comparison by each, one after the other."""
    told: dict[str, object] = {"extra": extra}
    tools: dict[str, Callable[[], tuple[str, float, int]]] = {
        "redline": lambda: _redline(extra, seed),
        "hyperfine": lambda: _hyperfine(extra),
        "pyperf": lambda: _pyperf(extra),
    }
    for name, compare in tools.items():
        started_s = perf_counter()
        verdict, change, runs = compare()
        told[name] = {"verdict": verdict, "change": change, "runs": runs, "wall_s": perf_counter() - started_s}
    return told


def _redline(extra: int, seed: int) -> tuple[str, float, int]:
    outcome = try_processes(extra, seed, PLAIN)
    return outcome.verdict, outcome.change, 2 * len(outcome.pairs)


def _hyperfine(extra: int) -> tuple[str, float, int]:
    """It has no verdict. Its last line is a ratio with a spread: read as one where 1 is outside of that."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "times.json"
        words = ["hyperfine", "--shell=none", "--warmup=1", f"--runs={RUNS}", "--export-json", str(path)]
        _run([*words, program(PLAIN, 0), program(PLAIN, extra)])
        before, after = json.loads(path.read_text(encoding="utf-8"))["results"]
    ratio = after["mean"] / before["mean"]
    spread = ratio * ((after["stddev"] / after["mean"]) ** 2 + (before["stddev"] / before["mean"]) ** 2) ** 0.5
    verdict = "slower" if ratio - spread > 1 else "faster" if ratio + spread < 1 else "undecided"
    return verdict, ratio - 1, 2 * (RUNS + 1)


def _pyperf(extra: int) -> tuple[str, float, int]:
    """Its verdict is whether the difference of means is significant."""
    with TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("before.json", "after.json")]
        for path, more in zip(paths, (0, extra), strict=True):
            fixed = ["-p", str(RUNS), "-n", "1", "-l", "1", "-w", "0", "-q", "-o", path]
            _run([sys.executable, "-m", "pyperf", "command", *fixed, "--", *shlex.split(program(PLAIN, more))])
        said = _run([sys.executable, "-m", "pyperf", "compare_to", "-v", *paths])
        means = [_pyperf_mean(path) for path in paths]
    change = means[1] / means[0] - 1
    verdict = "undecided" if "not significant" in said.casefold() else "slower" if change > 0 else "faster"
    return verdict, change, 2 * RUNS


def _pyperf_mean(path: str) -> float:
    runs = json.loads(Path(path).read_text(encoding="utf-8"))["benchmarks"][0]["runs"]
    values = [value for run in runs for value in run.get("values", ())]
    return float(sum(values) / len(values))


def _run(words: list[str]) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
