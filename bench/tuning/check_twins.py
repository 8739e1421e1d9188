"""Time the twins alone, and check their numbers: python -m bench.tuning.check_twins --out FOLDER [--only NAME]

Each twin is a line in FOLDER/twins.jsonl. A twin without a gain, or with other numbers, is none.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import redline
from bench.tuning.cases import CASES, TuningCase, case_of
from bench.tuning.fresh_pairs import time_in_turns
from redline.capture.supervisor.trial_command import trial_command
from redline.errors import RedlineError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tuning.check_twins", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where lines are kept")
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES], help="cases (default: all)")
    parser.add_argument("--turns", type=int, default=2, help="of six fresh pairs each; 0 for numbers alone")
    parser.add_argument("--steps", type=int, default=40, help="of a process that is timed")
    parser.add_argument("--no-numbers", action="store_true", help="time alone")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lines = []
    for case in map(case_of, options.only or [case.name for case in CASES]):
        lines.append(checked(case, options.turns, options.steps, is_numbers_checked=not options.no_numbers))
        with (options.out / "twins.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(lines[-1]) + "\n")
        print(lines[-1], flush=True)
    return 0 if all(not line["failed"] and line["numbers_hold"] is not False for line in lines) else 1


def checked(case: TuningCase, turns: int, steps: int, *, is_numbers_checked: bool) -> dict[str, object]:
    """What is known of one; `failed` says why the rest is not."""
    line: dict[str, object] = {"name": case.name, "twin": None, "numbers": "", "numbers_hold": None, "failed": ""}
    try:
        if turns:
            twin = {"twin": trial_command(case.tuned)}
            timed = time_in_turns(trial_command(case.start), twin, turns=turns, steps=steps, seed=1)
            line["twin"] = {name: asdict(change) for name, change in timed.items()}.get("twin")
        numbers = redline.compare_numbers(case.start, case.tuned).numbers if is_numbers_checked else None
        if numbers is not None:
            line |= {"numbers": str(numbers.verdict), "numbers_hold": numbers.holds, "score": numbers.score}
    except RedlineError as error:
        line["failed"] = str(error)
    return line


if __name__ == "__main__":
    raise SystemExit(main())
