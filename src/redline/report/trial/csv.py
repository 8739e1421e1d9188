"""The pairs of a trial as CSV."""

import csv
import io

from redline.trials.numbers.check import NumbersResult
from redline.trials.trial_result import TrialResult


def render(trial: TrialResult | None, numbers: NumbersResult | None = None) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("pair", "before_s", "after_s"))
    writer.writerows(
        (number, pair.before_s, pair.after_s) for number, pair in enumerate(trial.pairs if trial else (), 1)
    )
    return text.getvalue()
