"""HTA's critical path and what-if beside Redline's.

python -m bench.other_paths --hta PYTHON [--made SEED JOBS] [TRACE ...]

PYTHON is that of an environment with HolisticTraceAnalysis. Both get each trace by itself, without a cache, and are
asked what kernels of half the time gain. Of made jobs that is known: the job is made again with such kernels.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import redline
from bench.replay.score import kernels_half, made_job, total_ns
from bench.tables import as_text
from redline.errors import RedlineError
from redline.job.read_files import JobOptions
from redline.report.diagnose.json import as_record
from tests.support.traces.jobspec import JobSpec
from tests.support.traces.synthetic import write_job

HTA = Path(__file__).with_name("hta_path.py")
SCENARIO = "kernels/2"
LONGEST_S = 400
HEADS = ("trace", "HTA: CPU s", "path of window", "mostly", SCENARIO, "Redline: CPU s", "mostly", SCENARIO, "realised")


@dataclass(frozen=True, kw_only=True)
class PathAnswer:
    """What a tool says of one trace. Gains are shares of its window."""

    cpu_s: float = 0.0
    path_share: float = 1.0  # how long the path is; that of a replay is as long as the steps
    mostly: str = ""
    gain: float | None = None
    declined: str = ""

    def cells(self) -> tuple[str, ...]:
        if self.declined:
            return "-", "-", self.declined, "-"
        gain = "-" if self.gain is None else f"{self.gain:.1%}"
        return f"{self.cpu_s:.1f}", f"{self.path_share:.0%}", self.mostly, gain


def hta_answer(python: str, trace: Path) -> PathAnswer:
    """Of a process of its own, as traces may take all of its memory or time."""
    words = [python, str(HTA), str(trace)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        return PathAnswer(declined=f"not done in {LONGEST_S} s")
    lines = (done.stdout if not done.returncode else done.stderr).strip().splitlines() or [f"exit {done.returncode}"]
    if done.returncode:
        return PathAnswer(declined=lines[-1])
    known = json.loads(lines[-1])
    if "path_us" not in known:
        return PathAnswer(declined="no path was found")
    part, share = max(known["parts"].items(), key=lambda item: item[1])
    return PathAnswer(
        cpu_s=known["read_s"] + known["path_s"],
        path_share=known["path_us"] / known["window_us"],
        mostly=f"{part} {share:.0f} %",
        gain=(known["path_us"] - known["half_kernels_us"]) / known["window_us"],
    )


def redline_answer(trace: Path) -> PathAnswer:
    begun_s = process_time()
    try:
        result = redline.diagnose(trace, options=JobOptions(jobs=1, use_cache=False), what_if=SCENARIO)
    except RedlineError as error:
        return PathAnswer(declined=str(error).splitlines()[0])
    cpu_s = process_time() - begun_s
    replay = as_record(result)["replay"]
    (asked,) = replay["what_if"]
    if replay["declined"]:
        return PathAnswer(declined=replay["declined"])
    accounts: list[dict[str, Any]] = replay["critical_path"]["accounts"]
    what, share = max(((part["what"], part["share"]) for part in accounts), key=lambda part: part[1])
    return PathAnswer(
        cpu_s=cpu_s,
        mostly=f"{what} {100 * share:.0f} %",
        gain=None if asked["declined"] else asked["gain_share"],
    )


def row_of(python: str, trace: Path, name: str, realised: str = "") -> tuple[str, ...]:
    hta, own = hta_answer(python, trace).cells(), redline_answer(trace).cells()
    return name, *hta, own[0], *own[2:], realised


def made_rows(python: str, first: int, jobs: int) -> Iterator[tuple[str, ...]]:
    """Jobs of one rank, with recorded waits, which HTA asks for."""
    for seed in range(first, first + jobs):
        spec: JobSpec = replace(made_job(seed), ranks=1, layout=None, microbatches=1, sync_events=True)
        gain = 1 - total_ns(kernels_half(spec).true) / total_ns(spec)
        with TemporaryDirectory() as folder:
            write_job(spec, Path(folder), compress=False)
            (trace,) = Path(folder).glob("rank*.json")
            yield row_of(python, trace, f"made {seed}", f"{gain:.1%}")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.other_paths", description=__doc__)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--hta", required=True, help="Python of an environment with HolisticTraceAnalysis")
    parser.add_argument("--made", nargs=2, type=int, metavar=("SEED", "JOBS"), default=(0, 0))
    options = parser.parse_args(words)
    rows = []
    given = (row_of(options.hta, trace, trace.name.split(".")[0]) for trace in options.traces)
    for row in chain(given, made_rows(options.hta, *options.made)):
        print("  ".join(row), file=sys.stderr, flush=True)
        rows.append(row)
    print(as_text(HEADS, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
