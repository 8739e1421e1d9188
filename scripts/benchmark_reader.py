"""Measure the reader against json.load and against the bare limit, interleaved, each in a process of its own.

    python -m scripts.benchmark_reader [TRACE.json.gz] [--rounds 5] [--megabytes 120]

Without a trace, a synthetic one of the given size is made. The bare limit (inflate and walk the JSON in chunks, keeping
nothing) needs the package pysimdjson; without it that line is left out. CPU seconds of whole processes, so that other
load on the machine matters little; compare the ratios, not the seconds.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from tests.support.traces.synthetic import write_large_file

JSON_LOAD = "import gzip, json, sys; trace = json.load(gzip.open(sys.argv[1]))"
REDLINE = (
    "import sys; from pathlib import Path; from redline.trace.reader import read_file; read_file(Path(sys.argv[1]))"
)
CACHED = """
import sys
from pathlib import Path
from redline.trace.cache import read_cached
from redline.trace.reader import ReadOptions
read_cached(Path(sys.argv[1]), ReadOptions(), Path(sys.argv[2]))
"""
BARE = """
import sys
import simdjson
from isal import igzip
parser, buffer, inside = simdjson.Parser(), b"", False
with igzip.open(sys.argv[1]) as file:
    while piece := file.read(4 << 20):
        buffer += piece
        if not inside:
            buffer, inside = buffer[buffer.index(b"[", buffer.index(b'"traceEvents"')) + 1 :], True
        end = max(map(buffer.rfind, (b"},\\n  {", b"},\\n{", b"}, {", b"},\\n    {")))
        document = parser.parse(b"[" + buffer[: end + 1] + b"]")
        len(document)
        del document
        buffer = buffer[end + 2 :]
"""

# What the system reports for a child includes the parent's pages before exec, so the process tells its own peak.
TELL_PEAK = """
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""


@dataclass(frozen=True)
class Cost:
    """What one process took."""

    cpu_s: float
    peak_mb: float


def cost_of(code: str, *arguments: str) -> Cost:
    """Run Python code in a fresh interpreter, waiting for exactly that process."""
    process = subprocess.Popen([sys.executable, "-c", code + TELL_PEAK, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    peak_kib = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"a measured process failed with {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, int(peak_kib) * 1.024 / 1000)


def measure(trace: str, rounds: int, cache: str) -> dict[str, list[Cost]]:
    contestants: dict[str, tuple[str, ...]] = {
        "json.load of the .gz": (JSON_LOAD, trace),
        "redline, cold": (REDLINE, trace),
    }
    if find_spec("simdjson"):
        contestants["bare limit"] = (BARE, trace)
    cost_of(CACHED, trace, cache)  # fills the cache
    contestants["redline, cached"] = (CACHED, trace, cache)
    costs: dict[str, list[Cost]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, (code, *arguments) in contestants.items():
            costs[name].append(cost_of(code, *arguments))
    return costs


def show(costs: dict[str, list[Cost]]) -> None:
    base = median(cost.cpu_s for cost in costs["json.load of the .gz"])
    bare = median(cost.cpu_s for cost in costs["bare limit"]) if "bare limit" in costs else None
    print(f"{'':22}{'CPU s (median)':>16}{'/ json.load':>13}{'/ bare':>8}{'peak MB':>9}")
    for name, runs in costs.items():
        cpu_s = median(cost.cpu_s for cost in runs)
        to_bare = f"{cpu_s / bare:8.1f}" if bare else f"{'-':>8}"
        print(f"{name:22}{cpu_s:16.2f}{cpu_s / base:13.2f}{to_bare}{max(cost.peak_mb for cost in runs):9.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", help="a gzipped trace; default: a synthetic one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=120, help="size of the synthetic trace")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = options.trace
        if trace is None:
            trace = str(Path(folder) / "synthetic.json.gz")
            written = write_large_file(Path(trace), options.megabytes * 1_000_000)
            print(f"synthetic trace: {written.text_bytes / 1e6:.0f} MB, {sum(written.events.values()):,} events")
        show(measure(trace, options.rounds, str(Path(folder) / "cache")))


if __name__ == "__main__":
    main()
