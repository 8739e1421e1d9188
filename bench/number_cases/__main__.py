"""Score the check of numbers: python -m bench.number_cases --out FOLDER [--half fit] [case ...]"""

import argparse
from pathlib import Path

from bench.number_cases.registry import CASES, MODELS
from bench.number_cases.score import is_first_right, is_found, score_cases, totals


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.number_cases", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where outcomes are kept")
    parser.add_argument("--half", choices=("fit", "set aside"), help="of the models (default: both)")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("words", nargs="*", metavar="CASE", help="only cases whose name has one of these in it")
    options = parser.parse_args()
    cases = [
        case
        for case in CASES
        if (options.half is None or MODELS[case.model].half == options.half)
        and (not options.words or any(word in case.name for word in options.words))
    ]
    outcomes = score_cases(cases, options.out, options.jobs)
    for case in cases:
        outcome = outcomes[case.name]
        is_right = is_found(outcome) == (case.kind == "bug") and outcome.holds is not None
        if not is_right:
            print(f"{case.kind:9} WRONG  {case.name}  {outcome.verdict} {outcome.score:.3g} {outcome.error}")
        elif case.kind == "bug" and not is_first_right(case, outcome):
            places = " | ".join(f"{place.kind} {place.name}" for place in case.first)
            print(f"{case.kind:9} place  {case.name}  said {outcome.first}, accepted {places}")
    for half in sorted({MODELS[case.model].half for case in cases}):
        print(half, totals([case for case in cases if MODELS[case.model].half == half], outcomes))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
