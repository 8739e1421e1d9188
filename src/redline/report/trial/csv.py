"""The pairs of a trial as CSV."""

import csv
import io

from redline.trials.trial_result import TrialResult


def render(trial: TrialResult) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("pair", "before_s", "after_s"))
    writer.writerows((number, pair.before_s, pair.after_s) for number, pair in enumerate(trial.pairs, 1))
    return text.getvalue()
