"""Run every case with its reference: bugs must change a bit, harmless changes must not change losses.

It knows losses and a hash of parameters only; it is not the check that is scored on these cases.

python -m bench.number_cases.verify [MODEL ...]
"""

import os
import re
import subprocess
import sys
from functools import cache

from bench.number_cases.case import Claim, NumbersCase
from bench.number_cases.registry import CASES, MODELS

LIMITS: dict[Claim, float] = {"bitwise": 0.0, "reassociation": 1e-5, "lower precision": 2e-2}
LINE = re.compile(r"rank (\d+) (step \d+ \w+|state) (\S+)")

Printed = dict[tuple[str, str], str]


@cache
def _output(model: str, variant: str) -> tuple[int, str]:
    words = MODELS[model].command(variant)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=environment)
    return done.returncode, done.stdout + done.stderr


def printed(model: str, variant: str) -> Printed:
    """By rank and name."""
    code, output = _output(model, variant)
    if code:
        raise SystemExit(f"{model} {variant} ended with {code}\n{output[-3000:]}")
    return {(found[1], found[2]): found[3] for found in LINE.finditer(output)}


def means(lines: Printed) -> dict[str, float]:
    """Losses over ranks."""
    names = {name for _, name in lines if name != "state"}
    return {
        name: sum(values) / len(values)
        for name in names
        for values in [[float(value) for (_, other), value in lines.items() if other == name]]
    }


def difference(case: NumbersCase) -> tuple[bool, float]:
    """Whether any bit differs, and the largest relative difference of a loss."""
    ours, theirs = (printed(case.model, variant) for variant in (case.variant, case.reference))
    mine, other = means(ours), means(theirs)
    if mine.keys() != other.keys():
        raise SystemExit(f"{case.name}: other losses than its reference")
    return ours != theirs, max(abs(mine[name] / other[name] - 1) for name in mine)


def complaint(case: NumbersCase, differs: bool, largest: float) -> str:
    if case.kind == "bug":
        return "" if differs else "changes nothing"
    limit = LIMITS[case.claimed]
    if case.claimed == "bitwise":
        return "not bitwise" if differs else ""
    return "" if largest <= limit else f"beyond {limit:g}"


def main() -> int:
    wanted = sys.argv[1:] or list(MODELS)
    wrong = 0
    for case in CASES:
        if case.model in wanted:
            differs, largest = difference(case)
            said = complaint(case, differs, largest)
            wrong += bool(said)
            print(
                f"{said or 'right':16} {case.kind:8} {largest:9.2g} {'' if differs else 'same bits'} {case.name}",
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
