"""How well a search repeats itself: python -m bench.tuning.repeats --out FOLDER [--times 5] [--case gpt2_flaws]

Every result is timed against the start and against the first result, all in turns, so that a slow hour hits them alike.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bench.tuning.cases import CASES, SHOW_PIECE, case_of
from bench.tuning.fresh_pairs import FreshChange, time_in_turns
from bench.tuning.run_tune import TuneError, kept_levers, run_tune
from redline.capture.supervisor.trial_command import trial_command

ALIKE = 0.05  # a difference of final times that nobody minds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tuning.repeats", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where records and results are kept")
    parser.add_argument("--times", type=int, default=5, help="searches")
    parser.add_argument("--case", choices=[case.name for case in CASES], default=SHOW_PIECE)
    parser.add_argument("--budget", type=int, default=20, help="minutes of a search")
    parser.add_argument("--turns", type=int, default=3, help="of six fresh pairs each")
    parser.add_argument("--steps", type=int, default=40, help="of a process that is timed")
    parser.add_argument("--no-search", action="store_true", help="time the tuned.toml that are in the folders already")
    options = parser.parse_args()
    case = case_of(options.case)
    results: dict[str, tuple[str, ...]] = {}
    for number in range(1, options.times + 1):
        name = f"{case.name}-{number}"
        record = (options.out / name).resolve()
        try:
            results[name] = (
                kept_levers(record) if options.no_search else run_tune(case.job, record, options.budget).levers
            )
        except TuneError as error:
            print(f"{name}: FAILED: {error}", flush=True)
    programs = {name: trial_command(case.start, levers=levers) for name, levers in results.items() if levers}
    start = trial_command(case.start)
    spent = {"turns": options.turns, "steps": options.steps}
    changes = time_in_turns(start, programs, **spent, seed=1)
    first = next(iter(programs), None)
    against_first = {name: programs[name] for name in programs if first and results[name] != results[first]}
    beside = time_in_turns(programs[first], against_first, **spent, seed=2) if first else {}
    with (options.out / "repeats.jsonl").open("a", encoding="utf-8") as file:
        for name, levers in results.items():
            known = {"name": name, "levers": levers, "against_start": _line(changes.get(name))}
            file.write(json.dumps({**known, "against_first": _line(beside.get(name))}) + "\n")
            print(name, " ".join(levers), _told(changes.get(name)), is_alike(beside.get(name)), flush=True)
    return 0


def is_alike(against_first: FreshChange | None) -> str:
    """Whether a result is as fast as the first one; those with the same levers are not timed again."""
    if against_first is None:
        return "the same levers as the first"
    if abs(against_first.change) <= ALIKE:
        return f"within {ALIKE:.0%} of the first ({against_first.change:+.1%})"
    if against_first.low <= 0 <= against_first.high:
        return f"not told apart from the first ({_told(against_first)})"
    return f"DIFFERS from the first: {_told(against_first)}"


def _line(change: FreshChange | None) -> dict[str, float] | None:
    return None if change is None else asdict(change)


def _told(change: FreshChange | None) -> str:
    if change is None:
        return "not timed"
    return f"{change.step_ms:.1f} ms, {change.change:+.1%} [{change.low:+.1%}, {change.high:+.1%}]"


if __name__ == "__main__":
    raise SystemExit(main())
