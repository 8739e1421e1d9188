"""Offer every trap to `redline tune`: python -m bench.tuning.traps.adopted --out FOLDER [--budget 20] [trap ...]

None may be among the levers that it keeps, each must be named in what it prints, and no process may be left.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from time import sleep

from bench.tuning.processes_of import end_processes_of, marked_environment, processes_of
from bench.tuning.run_tune import kept_levers
from bench.tuning.traps.expected import JOB, TRAPS, Trap

_GRACE_S = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tuning.traps.adopted", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where records are kept")
    parser.add_argument("--budget", type=int, default=20, help="minutes of each search")
    parser.add_argument("traps", nargs="*", metavar="TRAP", help="only these")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lines = []
    chosen = [trap for trap in TRAPS if not options.traps or trap.name in options.traps]
    for arguments in sorted({trap.arguments for trap in chosen}):
        offered = [trap for trap in chosen if trap.arguments == arguments]
        lines += offer(offered, arguments, (options.out / f"traps{len(arguments)}").resolve(), options.budget)
    with (options.out / "adopted.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    for line in lines:
        print(line)
    return 0 if all(line["is_named"] and not line["is_adopted"] and not line["left"] for line in lines) else 1


def offer(traps: Sequence[Trap], arguments: Sequence[str], record: Path, budget: int) -> list[dict[str, object]]:
    """All at once, as a search has many candidates."""
    word = token_hex(8)
    tried = [part for trap in traps for part in ("--try", trap.lever)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "redline", "tune", "--budget", str(budget), "--record", str(record), *tried),
            *("--", str(JOB), *arguments),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=marked_environment(word),
    )
    record.with_suffix(".log").write_text(done.stdout + done.stderr, encoding="utf-8")
    sleep(_GRACE_S)
    left = list(processes_of(word).values())
    end_processes_of(word)
    kept, failed = kept_levers(record), f"redline tune ended with {done.returncode}" if done.returncode else ""
    return [
        {
            "name": trap.name,
            "expected": trap.expected,
            "is_adopted": trap.lever in kept,
            "is_named": not failed and bool(said_of(trap, done.stdout)),
            "said": said_of(trap, done.stdout),
            "left": left,
            "failed": failed,
        }
        for trap in traps
    ]


def said_of(trap: Trap, output: str) -> list[str]:
    """The lines that name its lever."""
    is_it = re.compile(rf"(?<![\w=-]){re.escape(trap.lever)}(?!\w)")
    return [line.strip() for line in output.splitlines() if is_it.search(line)]


if __name__ == "__main__":
    raise SystemExit(main())
