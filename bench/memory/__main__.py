"""Score the causes of full memory: python -m bench.memory --out FOLDER [--set-aside] [case ...]

Memory is counted, not timed: other load on the machine changes nothing. Runs that are in the folder already are read
again, not run.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import redline
from bench.memory.memory_cases import MemoryCase, cases_set_aside, open_cases


@dataclass(frozen=True, kw_only=True)
class SideResult:
    """Causes with what they save at most, the most useful first, and the peak."""

    causes: tuple[tuple[str, int], ...]
    peak_bytes: int
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class MemoryScore:
    """What was said of both sides of a case."""

    name: str
    code: str
    flawed: SideResult
    healthy: SideResult

    @property
    def is_first(self) -> bool:
        return bool(self.flawed.causes) and self.flawed.causes[0][0] == self.code

    @property
    def has_alarm(self) -> bool:
        """The twin of a case has nothing to mend, whatever the cause."""
        return bool(self.healthy.causes)

    @property
    def saved_bytes(self) -> int:
        return self.flawed.peak_bytes - self.healthy.peak_bytes

    @property
    def bound_holds(self) -> bool:
        return sum(most for code, most in self.flawed.causes if code == self.code) >= self.saved_bytes

    def line(self) -> str:
        said = " ".join(f"{code}:{size / 2**20:.1f}" for code, size in self.flawed.causes) or "nothing"
        alarms = " ".join(f"{code}:{size / 2**20:.1f}" for code, size in self.healthy.causes) or "none"
        trouble = self.flawed.trouble or self.healthy.trouble
        return (
            f"{self.name:22} {self.code} {'first' if self.is_first else 'NOT FIRST'}  said {said} of "
            f"{self.flawed.peak_bytes / 2**20:.1f} MiB, saved {self.saved_bytes / 2**20:.1f}, alarms {alarms} {trouble}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where runs and results are kept")
    parser.add_argument("--set-aside", action="store_true", help="those that no rule was written with")
    parser.add_argument("names", nargs="*", metavar="CASE", help="only these")
    options = parser.parse_args()
    scores = []
    for case in cases_set_aside() if options.set_aside else open_cases():
        if not options.names or case.name in options.names:
            flawed, healthy = (_side(case, side, options.out / case.name) for side in ("flawed", "healthy"))
            scores.append(MemoryScore(name=case.name, code=case.code, flawed=flawed, healthy=healthy))
            print(scores[-1].line(), flush=True)
    print(summary(scores))
    return 0


def _side(case: MemoryCase, side: str, folder: Path) -> SideResult:
    run, done = folder / side, folder / f"{side}.done"
    if not done.exists():
        shutil.rmtree(run, ignore_errors=True)  # of a run that was interrupted
        launcher = ["--nproc-per-node", str(case.ranks)] if case.ranks > 1 else []
        words = [sys.executable, "-m", "redline", "run", "-q", "--memory", "--after", "4", "--steps", "6", *launcher]
        ended = subprocess.run(
            [*words, "-o", str(run), "--", *case.words, side], capture_output=True, text=True, check=False
        )
        if ended.returncode:
            return SideResult(causes=(), peak_bytes=0, trouble=ended.stderr[-300:])
        done.touch()
    result = redline.memory(run)
    causes = tuple((cause.code, cause.saves_bytes) for cause in result.causes)
    return SideResult(causes=causes, peak_bytes=result.first.peak.live_bytes)


def summary(scores: Sequence[MemoryScore]) -> str:
    first = sum(score.is_first for score in scores)
    alarms = sum(score.has_alarm for score in scores)
    bounds = sum(score.bound_holds for score in scores)
    return f"{len(scores)} cases: the cause first in {first}, an alarm on {alarms} twins, the bound holds in {bounds}"


if __name__ == "__main__":
    raise SystemExit(main())
