"""The errors that every plan quotes, per software stack, from the tables of accuracy."""

from redline.cost.train.trust import EVERY
from redline.cost.truth.memory_accuracy import memory_accuracy
from redline.cost.truth.step_accuracy import step_accuracy

DIGITS = 3


def held_out() -> dict[str, dict[str, dict[str, float]]]:
    """Of step time and of memory: rows, median and 90th percentile of absolute errors."""
    steps, peaks = step_accuracy(), memory_accuracy().peaks
    return {
        "step": {
            **{each.name: _entry(each.runs, each.median, each.ninetieth) for each in steps.stacks},
            EVERY: _entry(steps.everything.runs, steps.everything.median, steps.everything.ninetieth),
        },
        "memory": {each.stack: _entry(each.rows, each.median, each.p90) for each in peaks},
    }


def _entry(rows: int, median: float, p90: float) -> dict[str, float]:
    return {"rows": rows, "median": round(median, DIGITS), "p90": round(p90, DIGITS)}
