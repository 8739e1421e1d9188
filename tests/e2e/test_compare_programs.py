"""`redline compare` of programs: real processes in turns, levers inside one, several ranks, and rubbish."""

import importlib.util
import json
import shlex
import signal
import sys
from pathlib import Path

import pytest

import redline
from redline.capture.settings import Settings
from redline.capture.supervisor.trial_command import trial_command
from redline.capture.supervisor.trial_job import start_trial
from redline.cli import main
from redline.trials.paired_sequence import TrialVerdict
from tests.support.running import PROGRAMS, TORCHRUN, started

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

TRIED = PROGRAMS / "tried.py"


def compare(folder: Path, *words: object) -> tuple[int, str]:
    """The exit code and all output."""
    with started(folder, sys.executable, "-m", "redline", "compare", "-q", *words) as job:
        code = job.wait()
        return code, " ".join(job.output.split())


def test_a_switch_of_the_script_is_timed_in_one_process(tmp_path: Path) -> None:
    code, said = compare(
        tmp_path, "--with", "switch=slow", "--fail-on", "slower>0%", "-o", "out.json", "--", TRIED, "--nap-ms", 1
    )
    assert code == 1, said
    assert "slower>0%" in said
    time = json.loads((tmp_path / "out.json").read_text())["time"]
    assert time["verdict"] == "slower"
    assert time["timed"] == "steps, in blocks of one process"
    assert time["processes"] == 1
    assert time["levers"] == [{"lever": "switch=slow", "took": True, "what": "switch 'slow'"}]
    assert 6 <= len(time["pairs"]) <= 60
    assert time["wall_time"]["low"] > 0


@pytest.mark.slow
def test_a_trial_of_more_steps_than_are_kept_goes_on_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redline.trials.try_levers.ENTRIES", 200)  # of 32,768, which take minutes
    monkeypatch.setattr("redline.trials.try_levers.MOST_TURNS", 5)
    monkeypatch.chdir(tmp_path)
    trial = redline.compare_programs(str(TRIED), levers=["switch=slow"]).trial
    assert trial is not None
    assert trial.decision is not None
    assert trial.decision.verdict is TrialVerdict.SLOWER
    assert trial.processes > 1


def test_ranks_switch_together(tmp_path: Path) -> None:
    words = (*TORCHRUN, "--nproc-per-node=2", TRIED)
    code, said = compare(tmp_path, "--with", "switch=slow", "-o", "out.json", "--", *words)
    assert code == 0, said
    time = json.loads((tmp_path / "out.json").read_text())["time"]
    assert (time["verdict"], time["ranks"]) == ("slower", 2)


def test_steps_of_processes_are_timed_in_pairs(tmp_path: Path) -> None:
    stepping = f"{sys.executable} {PROGRAMS / 'stepping.py'} 14"
    code, said = compare(tmp_path, "--a", f"{stepping} 1", "--b", f"{stepping} 40", "--steps", 14, "--pairs", 8)
    assert code == 0, said
    assert "verdict Slower" in said
    assert "pairs of processes in random order. 4 steps of each counted." in said


def test_any_command_is_timed_as_a_whole(tmp_path: Path) -> None:
    code, said = compare(tmp_path, "--a", "sleep 0.3", "--b", "sleep 0.01", "--pairs", 8, "--lang", "zh")
    assert code == 0, said
    assert "更快" in said
    assert "对进程，顺序随机" in said
    assert "整个命令" in said


def test_a_lever_that_changes_nothing_is_said_to(tmp_path: Path) -> None:
    code, said = compare(tmp_path, "--with", "switch=other", "--", TRIED)
    assert code == 0, said
    assert "switch=other changed nothing: the script never asked for 'other'." in said


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user."""
    mine = tmp_path / "checkpoints" / "model.pt"
    mine.parent.mkdir()
    mine.write_bytes(b"precious")
    return mine


@pytest.mark.parametrize("launcher", [(), pytest.param((*TORCHRUN, "--nproc-per-node=2"), marks=pytest.mark.slow)])
def test_files_of_the_user_are_left_alone(tmp_path: Path, precious: Path, launcher: tuple[str, ...]) -> None:
    saving = (*launcher, TRIED, "--save", "checkpoints/model.pt")
    code, said = compare(tmp_path, "--with", "switch=slow", "--", *saving)
    assert code == 2, said
    assert f"it was about to write {precious}" in said
    assert "let it write nothing, or end by itself before that, or allow it (--allow-writes)" in said
    assert precious.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("save_at", "helps"), [(15, ", end it before (--steps 16), or"), pytest.param(11, ", or", marks=pytest.mark.slow)]
)
def test_processes_may_end_before_they_write_if_enough_steps_are_left(
    tmp_path: Path, precious: Path, save_at: int, helps: str
) -> None:
    saving = (sys.executable, str(TRIED), "--save", "checkpoints/model.pt", "--save-at", str(save_at))
    code, said = compare(tmp_path, "--a", shlex.join(saving), "--b", f"{sys.executable} {TRIED}")
    assert code == 2, said
    assert f"let it write nothing{helps} allow it (--allow-writes)" in said
    settings = Settings({"capture": False, "on_trial": True, "timed_after_s": 0.0})
    with start_trial(trial_command(saving, folder=tmp_path), settings) as job:
        job.end_after(save_at + 1)  # as it was advised to
        ended = job.wait()
        assert ended
        assert (ended.exit_code, job.steps()) == (0, save_at + 1)
    assert precious.read_bytes() == b"precious"


@pytest.mark.slow  # CI has checks of numbers in test_numbers.py
def test_numbers_and_time_are_told_together(tmp_path: Path) -> None:
    changed = f"{sys.executable} {TRIED} --double"
    code, said = compare(
        tmp_path, "--numbers-only", "--a", f"{sys.executable} {TRIED}", "--b", changed, "-o", "out.json", "--force"
    )
    assert code == 1, said
    numbers = json.loads((tmp_path / "out.json").read_text())["numbers"]
    assert (numbers["holds"], numbers["verdict"]) == (False, "changes semantics")
    assert (numbers["first"]["kind"], numbers["first"]["name"]) == ("gradient", "0.weight")
    assert numbers["first"]["gain"] == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--a", "python x.py"], "two programs are --a 'CMD' and --b 'CMD'"),
        (["--with", "fused"], "which command? give it after `--`"),
        (["--with", "fast", "--", "x.py"], "there is no lever 'fast'"),
        (["--with", "fused", "--a", "x.py"], "not both"),
        (["--a", "true", "--b", "true", "old", "new"], "give recordings, or programs; not both"),
        (["--a", "no-such-command", "--b", "true"], "no-such-command: No such file or directory"),
        (["--a", "A=1", "--b", "true"], "which command? a program is a command line"),
        (["--a", "false", "--b", "true"], "false: it ended with 1: it said nothing"),
        (["--a", "true", "--b", "true", "--save-as", "main"], "baselines are recordings"),
        (["--a", "true", "--b", "true", "--format", "html"], "give it a file"),
        (["--a", "true", "--b", "true", "--fail-on", "host>3%"], "programs in turns have no accounts"),
        (["--with", "fused", "--", "sleep", "1"], "levers need a Python program: "),
        (["--numbers-only", "--a", "true", "--b", "true"], "numbers are those of a Python program: "),
    ],
)
def test_rubbish_is_told_in_a_line(
    tmp_path: Path, words: list[str], why: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["compare", "-q", *words])
    said = " ".join("".join(capfd.readouterr()).split())
    assert code == 2, said
    assert why in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "asked", [(), pytest.param(("--numbers-only",), marks=pytest.mark.slow)], ids=["timed", "checked"]
)
def test_what_was_started_ends_with_the_one_who_asked(tmp_path: Path, asked: tuple[str, ...]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    endless, told = home / "endless.py", tmp_path / "pid"
    endless.write_text(f"import os, time, torch\nopen('{told}', 'w').write(str(os.getpid()))\ntime.sleep(600)")
    with started(
        home, sys.executable, "-m", "redline", "compare", "-q", *asked, "--with", "fused", "--", endless
    ) as job:
        job.wait_until(lambda: told.exists() and bool(told.read_text()))
        job.process.terminate()
        assert job.wait() == 128 + signal.SIGTERM
    assert not Path(f"/proc/{told.read_text()}").exists()


def test_a_job_that_is_too_short_is_told(tmp_path: Path) -> None:
    code, said = compare(tmp_path, "--with", "switch=slow", "--", TRIED, "--steps", 8)
    assert code == 2, said
    assert "it ended after 8 steps, too few for a pair of blocks" in said
