"""What is told of a run never changes how the run ends, and never reaches stdout."""

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from redline.capture.supervisor.supervise import Ended
from redline.cli import main
from redline.errors import InputError
from redline.report.run import run_summary
from redline.verbs import diagnose as diagnose_verb
from redline.verbs import run as run_verb
from redline.verbs.run import Ran
from tests.support.run_records import rank, run

EXITED_WITH_7 = 7 << 8


@pytest.fixture(autouse=True)
def over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Jobs are over at once, with exit code 7 and a trace."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").touch()
    ended = Ended(status=EXITED_WITH_7, started_ns=0, ended_ns=1)
    ran = Ran(record=run(rank(), exit_code=7), ended=ended, folder=tmp_path / "a run", speaks=True)
    monkeypatch.setattr(run_verb, "run", lambda *_, **__: ran)


def failing(error: BaseException) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_the_summary_and_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "a.py"]) == 7
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("redline: train.py --size 3: 1 rank, exit code 7")
    assert told.err.endswith("\n  folder    a run\nnext: redline diagnose 'a run'\n")


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "-q", "a.py"]) == 7
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ZeroDivisionError("x"), "redline: a bug in Redline, please report it: ZeroDivisionError: x\n"),
        (InputError("a.json: not a trace"), "redline: a.json: not a trace\n"),
        (KeyboardInterrupt(), "redline: interrupted\n"),
    ],
)
def test_what_fails_afterwards_does_not_change_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, said: str
) -> None:
    monkeypatch.setattr(diagnose_verb, "diagnose", failing(error))
    assert main(["run", "-q", "--diagnose", "a.py"]) == 7
    assert capsys.readouterr() == ("", said)
    monkeypatch.setattr(run_summary, "document_of_run", failing(error))
    assert main(["run", "a.py"]) == 7
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("when", ["while the record is written", "afterwards"])
def test_who_is_told_to_end_after_the_job_ends_as_the_job_did(
    number: int, when: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: Any = run_verb.run  # of the fixture

    def told(*_: object, **__: object) -> Any:
        signal.raise_signal(number)  # to this thread: others of the tests may not hold it
        return ran()

    if when == "afterwards":
        monkeypatch.setattr(run_summary, "document_of_run", told)
    else:
        monkeypatch.setattr(run_verb, "run", told)
    before = signal.getsignal(number), signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert main(["run", "a.py"]) == 7
    assert capsys.readouterr() == ("", "redline: interrupted\n")
    assert before == (signal.getsignal(number), signal.pthread_sigmask(signal.SIG_BLOCK, []))


def test_a_closed_stderr_sends_nothing_to_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["run", "a.py"]) == 7
    assert capsys.readouterr().out == ""
