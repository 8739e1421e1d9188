"""Whether thousands of capture windows in one process leave anything behind: memory, open files, threads.

    python scripts/soak_run.py --windows 10000

A tiny model trains under `redline run` and is captured over and over; afterwards as often by a plain torch.profiler
without Redline, which is what any growth is to be compared with. This is an accelerated soak: windows follow each other
as fast as they can be written, instead of once an hour for a year.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "tests" / "e2e" / "programs" / "many_windows.py"
OPTIONS = ["--quiet", "--after", "2", "--steps", "1", "--every", "2", "--budget", "100%", "--keep", "4"]
WARM_UP = 0.2  # of the samples, which the fit leaves out
LARGEST_SLOPE_BYTES = 1024.0


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What the process held after so many windows."""

    windows: int
    resident_kib: int
    anonymous_kib: int
    files: int
    threads: int


@dataclass(frozen=True, kw_only=True)
class Soaked:
    """What became of a process while it was captured over and over."""

    windows: int
    resident_bytes_per_window: float
    anonymous_bytes_per_window: float
    files: tuple[int, int]
    """The least in the first and in the second half after warm-up: a thread that ends is there for a moment longer."""
    threads: tuple[int, int]


def soaked(samples: list[Sample]) -> Soaked:
    settled = samples[int(WARM_UP * len(samples)) :]
    halves = settled[: len(settled) // 2], settled[len(settled) // 2 :]
    files = [min(one.files for one in half) for half in halves]
    threads = [min(one.threads for one in half) for half in halves]
    return Soaked(
        windows=samples[-1].windows,
        resident_bytes_per_window=1024 * slope([(one.windows, one.resident_kib) for one in settled]),
        anonymous_bytes_per_window=1024 * slope([(one.windows, one.anonymous_kib) for one in settled]),
        files=(files[0], files[1]),
        threads=(threads[0], threads[1]),
    )


def slope(points: list[tuple[int, int]]) -> float:
    """Of the straight line of least squares."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def soak(folder: Path, windows: int, every: int, *, bare: bool) -> list[Sample]:
    samples = folder / f"samples-{'bare' if bare else 'redline'}.txt"
    program = [str(PROGRAM), "--windows", str(windows), "--every", str(every), "--samples", str(samples)]
    if bare:
        command = [sys.executable, *program, "--bare", str(folder / "trace.json")]
    else:
        command = [sys.executable, "-m", "redline", "run", *OPTIONS, "-o", str(folder / "run"), "--", *program]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL if bare else None)
    names = ("windows", "resident_kib", "anonymous_kib", "files", "threads")
    lines = [map(int, line.split()) for line in samples.read_text().splitlines()]
    return [Sample(**dict(zip(names, line, strict=True))) for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--windows", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=100, help="windows from one sample to the next")
    parser.add_argument("--folder", type=Path, help="to keep the samples in")
    parser.add_argument("--no-bare", action="store_true", help="leave out the comparison with torch.profiler alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        watched = soaked(soak(folder, options.windows, options.every, bare=False))
        print(json.dumps({"redline run": asdict(watched)}), flush=True)
        if not options.no_bare:
            bare = soaked(soak(folder, options.windows, options.every, bare=True))
            print(json.dumps({"torch.profiler alone": asdict(bare)}))
    steady = watched.files[0] == watched.files[1] and watched.threads[0] == watched.threads[1]
    return 0 if steady and watched.resident_bytes_per_window < LARGEST_SLOPE_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
