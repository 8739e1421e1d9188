"""Trials that are kept in files: one of them, or all of the folder of a search."""

from pathlib import Path

from redline.report.trial.trial_report import TrialReport
from redline.storage import path_of
from redline.trials.trial_record import KIND, read_trial
from redline.tuning.trial_folder import STATE, TRIALS
from redline.verbs.recording_kind import kind_of


def trial_files(path: str | Path) -> list[Path]:
    """The file itself, or those of a search in this folder; none where it is something else."""
    known = path_of(path)
    if known.is_dir():
        return sorted((known / TRIALS).glob("*.json")) if (known / STATE).is_file() else []
    return [known] if kind_of(known) == KIND else []


def kept_trial(path: Path) -> TrialReport:
    """As it was shown when it was measured."""
    trial, numbers = read_trial(path)
    return TrialReport(trial=trial, numbers=numbers)
