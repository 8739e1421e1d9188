"""Score `redline tune` against twins that were tuned by hand: python -m bench.tuning --out FOLDER [--only NAME]

Each case is a line in FOLDER/scores.jsonl; the folder of a case has what the search wrote.
"""

import argparse
import json
from pathlib import Path

from bench.tuning.cases import CASES, case_of
from bench.tuning.fresh_pairs import FreshChange
from bench.tuning.score import CaseScore, ScoreOptions, score_case


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tuning", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where records and scores are kept")
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES], help="cases (default: all)")
    parser.add_argument("--budget", type=int, default=20, help="minutes of a search")
    parser.add_argument("--turns", type=int, default=3, help="of six fresh pairs each, for the twin and for the result")
    parser.add_argument("--steps", type=int, default=40, help="of a process that is timed")
    parser.add_argument("--seed", type=int, default=1, help="of the orders within pairs")
    parser.add_argument("--no-search", action="store_true", help="time the tuned.toml that is in the folder already")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = ScoreOptions(
        budget_minutes=options.budget,
        turns=options.turns,
        steps=options.steps,
        seed=options.seed,
        is_searched=not options.no_search,
    )
    for case in map(case_of, options.only or [case.name for case in CASES]):
        score = score_case(case, options.out, chosen)
        with (options.out / "scores.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(score.line()) + "\n")
        print(told(score), flush=True)
    return 0


def told(score: CaseScore) -> str:
    """A line for people."""
    share = "" if score.share is None else f"  reached {score.share:.0%}"
    numbers = "" if score.numbers_hold is None else f"  numbers {'hold' if score.numbers_hold else 'WRONG'}"
    kept = "" if score.levers is None else f"  {' '.join(score.levers)} in {score.minutes or 0:.1f} min"
    failed = f"  FAILED: {score.failed}" if score.failed else ""
    return f"{score.name:22} twin {_change(score.twin)}  tuned {_change(score.tuned)}{share}{numbers}{kept}{failed}"


def _change(timed: FreshChange | None) -> str:
    return "-" if timed is None else f"{timed.change:+.1%} [{timed.low:+.1%}, {timed.high:+.1%}]"


if __name__ == "__main__":
    raise SystemExit(main())
