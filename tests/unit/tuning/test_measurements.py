"""The budget of a search: nothing begins once it is spent, but for the proof of what was kept."""

import sys
from pathlib import Path

import pytest

from redline.capture.supervisor.trial_command import trial_command
from redline.tuning.measurements import BudgetSpentError, TrialMeasurements, TuneOptions
from redline.tuning.trial_folder import TrialFolder


def test_only_the_last_trials_begin_without_time_left(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("pass")
    command = trial_command([sys.executable, "job.py"], folder=tmp_path)
    measure = TrialMeasurements(command, TrialFolder(tmp_path / "of", {}), TuneOptions(budget_s=0.0), lambda _: None)
    for ask in (measure.start, lambda: measure.memory((), ("gc-freeze",)), lambda: measure.timed((), "gc-freeze")):
        with pytest.raises(BudgetSpentError):
            ask()
    assert measure.whole_memory(("gc-freeze",)).error == ""
    assert len(list((tmp_path / "of" / "trials").iterdir())) == 1
