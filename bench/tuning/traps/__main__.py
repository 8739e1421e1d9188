"""Check that every trap does what it says, by `redline compare`: python -m bench.tuning.traps --out FOLDER [trap ...]

A wrong change must be at least 5 % faster, and seen to be wrong; the others must show as what they are.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from time import sleep
from typing import Any

from bench.tuning.processes_of import end_processes_of, marked_environment, processes_of
from bench.tuning.traps.expected import JOB, LEAST_GAIN, TRAPS, Trap, TrapOutcome

_GRACE_S = 6.0  # that processes get to end by themselves
_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class TrapCheck:
    """What `redline compare` says of a trap."""

    name: str
    expected: str
    change: float | None  # of the time of a step
    low: float | None
    high: float | None
    verdict: str  # on time; or the error that it ended with
    numbers: str  # the class that was found, or the error
    left: int  # processes that were alive after it had ended

    @property
    def is_as_told(self) -> bool:
        """Whether compare shows what the table says."""
        if self.expected == TrapOutcome.WRONG_NUMBERS:
            return (self.is_tempting or not self.verdict) and self.numbers in ("lower precision", "changes semantics")
        if self.expected == TrapOutcome.LEFT_PROCESSES:
            return self.left > 0
        if self.expected in (TrapOutcome.FAILED, TrapOutcome.HUNG):
            return self.change is None and not self.left
        return self.verdict == self.expected

    @property
    def is_tempting(self) -> bool:
        return self.change is not None and self.change <= -LEAST_GAIN


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tuning.traps", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where outputs are kept")
    parser.add_argument("--minutes", type=int, default=2, help="to time each; 0 for numbers alone")
    parser.add_argument("traps", nargs="*", metavar="TRAP", help="only these")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [trap for trap in TRAPS if not options.traps or trap.name in options.traps]
    checks = [check_trap(trap, options.out, options.minutes) for trap in chosen]
    return 0 if all(check.is_as_told for check in checks) else 1


def check_trap(trap: Trap, out: Path, minutes: int) -> TrapCheck:
    """Time first, then numbers, each on its own, so that a failure of one does not hide the other."""
    timed: dict[str, Any] = {}
    checked: dict[str, Any] = {}
    left = 0
    if minutes:
        timed, left = _compare(trap, out / f"{trap.name}-time.json", "--max-time", str(minutes))
    if trap.expected is TrapOutcome.WRONG_NUMBERS:
        checked, _ = _compare(trap, out / f"{trap.name}-numbers.json", "--numbers-only")
    time = timed.get("time") or {}
    wall_time = time.get("wall_time") or {}
    check = TrapCheck(
        name=trap.name,
        expected=trap.expected,
        change=wall_time.get("change"),
        low=wall_time.get("low"),
        high=wall_time.get("high"),
        verdict=time.get("verdict") or timed.get("error", ""),
        numbers=(checked.get("numbers") or {}).get("verdict") or checked.get("error", ""),
        left=left,
    )
    with (out / "traps.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(check)) + "\n")
    print("as told " if check.is_as_told else "NOT SEEN", check, flush=True)
    return check


def _compare(trap: Trap, path: Path, *options: str) -> tuple[dict[str, Any], int]:
    """The report, or `error`, and how many processes were alive some seconds after it had ended."""
    word = token_hex(8)
    words = ["compare", "-q", "--json", "--with", trap.lever, *options, "--"]
    done = subprocess.run(
        [sys.executable, "-m", "redline", *words, sys.executable, str(JOB), *trap.arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env=marked_environment(word),
    )
    sleep(_GRACE_S)
    left = len(processes_of(word))
    end_processes_of(word)
    path.write_text(done.stdout + done.stderr, encoding="utf-8")
    try:
        return json.loads(done.stdout), left
    except ValueError:
        return {"error": done.stderr.strip() or f"ended with {done.returncode}"}, left


if __name__ == "__main__":
    raise SystemExit(main())
