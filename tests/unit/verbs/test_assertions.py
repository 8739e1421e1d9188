"""Assertions for tests: they fail where something is slower, and say nothing where noise is all there is."""

import sys
import time
from pathlib import Path

import pytest

import redline
from redline.errors import InputError, UsageError
from redline.report.trial.trial_report import TrialReport
from redline.trials.paired_sequence import TrialVerdict
from redline.trials.trial_result import Stopped

OPTIONS = redline.TrialOptions(pairs=10, seed=1)


def nap(milliseconds: float) -> None:
    time.sleep(milliseconds / 1000)


def test_a_slower_function_fails_with_figures() -> None:
    with pytest.raises(AssertionError, match=r"^<redline comparison: Slower: \d+\.\d % more time \(95 %: \+"):
        redline.assert_not_slower(lambda: nap(1), lambda: nap(20), options=OPTIONS)


def test_a_faster_function_passes_and_is_reported() -> None:
    report = redline.assert_not_slower(lambda: nap(20), lambda: nap(1), options=OPTIONS)
    assert report.trial is not None
    assert report.trial.decision is not None
    assert report.trial.decision.verdict is TrialVerdict.FASTER
    assert "Call: " in report.rendered("text")


def test_a_slowdown_within_the_allowance_passes() -> None:
    redline.assert_not_slower(lambda: nap(5), lambda: nap(10), by=50.0, options=OPTIONS)


def test_functions_and_commands_are_not_mixed() -> None:
    with pytest.raises(UsageError, match="give two functions, or two command lines"):
        redline.assert_not_slower("true", lambda: None)


def test_commands_can_be_asserted() -> None:
    with pytest.raises(AssertionError, match="Slower"):
        redline.assert_not_slower("sleep 0.01", "sleep 0.3", options=OPTIONS)


def test_a_command_that_does_not_end_is_told() -> None:
    with pytest.raises(InputError, match="it did not end within the time of the trial; give it fewer steps"):
        redline.compare_programs("sleep 100", "sleep 100", options=redline.TrialOptions(max_time_s=0.3))


def test_a_job_that_hangs_is_ended_and_undecided(tmp_path: Path) -> None:
    (tmp_path / "hang.py").write_text("import time\ntime.sleep(100)\n")
    options = redline.TrialOptions(max_time_s=0.5)
    report = redline.compare_programs(
        f"{sys.executable} {tmp_path / 'hang.py'}", levers=["switch=any"], options=options
    )
    assert report.trial is not None
    assert (report.trial.stopped, report.trial.pairs) == (Stopped.TIME_SPENT, ())
    assert "Not yet measurable: 0 pairs in " in report.rendered("text")


def test_a_report_is_saved_by_its_name(tmp_path: Path) -> None:
    report: TrialReport = redline.assert_not_slower(lambda: nap(2), lambda: nap(1), options=OPTIONS)
    for ending in ("html", "json", "md", "csv", "txt"):
        report.save(tmp_path / f"report.{ending}")
        assert (tmp_path / f"report.{ending}").stat().st_size > 100
    with pytest.raises(UsageError, match="a comparison is saved as"):
        report.save(tmp_path / "report.pdf")
