"""A change that was tried as JSON for machines; docs/reference/compare.md describes every field."""

from typing import Any

from redline.report.data import json_text
from redline.report.language import speaking
from redline.report.trial.sentences import everything
from redline.trials.numbers.check import NumbersResult
from redline.trials.trial_record import to_record
from redline.trials.trial_result import TrialResult


def render(trial: TrialResult | None, numbers: NumbersResult | None = None) -> str:
    return json_text(as_record(trial, numbers))


def as_record(trial: TrialResult | None, numbers: NumbersResult | None) -> dict[str, Any]:
    """In English, whatever language is spoken: programs read it."""
    with speaking("en"):
        said = " ".join(everything(trial, numbers))
    return {**to_record(trial, numbers), "text": said}
