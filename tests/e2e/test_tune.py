"""`redline tune` on real processes: what is faster and right is kept, nothing else; it goes on where it was ended."""

import importlib.util
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redline.capture.supervisor.guardian import processes_of
from redline.trials.trial_record import read_trial
from tests.support.command_line import run_redline
from tests.support.running import PROGRAMS, started

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

TUNABLE = PROGRAMS / "tunable.py"
# All levers of its own but one: a search of all would take minutes.
WITHOUT = [
    "foreach",
    "clip-foreach",
    "workers",
    "prefetch",
    "pin-memory",
    "autocast",
    "matmul-precision",
    "compile",
    "channels-last",
    "cudnn-benchmark",
    "sdpa",
    "threads",
    "zero-grad-none",
    "gc-freeze",
    "gc-every",
    "fsdp-prefetch",
    "fsdp-keep",
    "malloc-keep",
    "huge-pages",
    "omp-wait",
]

WAYS = ("right", "wrong", "breaks", "leaves", "unknown")
TRIED = ("--steps", "16", *(word for way in WAYS for word in ("--try", f"switch={way}")))


def words(folder: Path, *options: str) -> list[str]:
    left_out = [word for name in WITHOUT for word in ("--without", name)]
    return [sys.executable, "-m", "redline", "tune", "--record", str(folder / "of"), *left_out, *options]


def tune(folder: Path, *options: str, job: tuple[object, ...] = (TUNABLE,)) -> tuple[int, str]:
    with started(folder, *words(folder, *options), "--", *job) as running:
        code = running.wait()
        return code, " ".join(running.output.split())


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a search was done."""
    folder = tmp_path_factory.mktemp("tune")
    code, said = tune(folder, *TRIED, "-o", "out.json")
    assert code == 0, said
    return folder


@pytest.fixture
def result(searched: Path) -> dict[str, Any]:
    content = json.loads((searched / "out.json").read_text())
    assert isinstance(content, dict)
    return content


def test_what_is_faster_and_right_is_kept_and_proven(result: dict[str, Any]) -> None:
    assert result["levers"] == ["switch=right"]
    assert result["proven"] is True
    (rung,) = result["rungs"]
    assert rung["change"]["high"] < 0
    assert rung["numbers"] == "bitwise"
    assert result["whole"]["change"]["high"] < 0


def test_what_is_wrong_or_broken_is_named_with_what_shows_it(result: dict[str, Any]) -> None:
    why = {known["lever"]: (known["why"], known["evidence"]) for known in result["rejected"]}
    assert why["switch=wrong"][0] == "wrong numbers"
    assert "first wrong in step 1: the loss; time -" in why["switch=wrong"][1]
    assert why["switch=breaks"][0] == "failed"
    assert why["switch=breaks"][1].startswith("it ended with 1: RuntimeError: this way does not work")
    assert why["switch=leaves"][0] == "failed"
    assert "went on after its end" in why["switch=leaves"][1]
    assert why["switch=unknown"] == ("nothing changed", "the script never asked for 'unknown'")
    assert why["fused"][0] == "nothing changed"


def test_only_what_is_not_known_is_measured_and_no_other_file_is_left(searched: Path, result: dict[str, Any]) -> None:
    assert {path.name for path in searched.iterdir() if not path.name.startswith("output-")} == {"of", "out.json"}
    (last,) = (searched / "of" / "trials").glob("*-whole-*.json")
    last.unlink()  # as if it had been ended before
    before = {path: path.read_bytes() for path in (searched / "of" / "trials").iterdir()}
    code, said = tune(searched, *TRIED, "--json")
    assert code == 0, said
    after = {path: path.read_bytes() for path in (searched / "of" / "trials").iterdir()}
    assert after.keys() - before.keys() == {last}
    assert {path: after[path] for path in before} == before
    assert '"levers": [ "switch=right" ]' in said


def test_the_job_runs_with_what_was_kept(searched: Path, tmp_path: Path) -> None:
    tuned = str(searched / "of" / "tuned.toml")
    run = [sys.executable, "-m", "redline", "run", "--watch-only", "--with", tuned, "--", str(TUNABLE), "--steps", "20"]
    with started(tmp_path, *run) as job:
        assert job.wait() == 0, job.output
        assert "switch=right: switch 'right'" in job.output


def test_trials_are_shown_by_compare(searched: Path) -> None:
    for path in (searched / "of", *(searched / "of" / "trials").glob("*-time-switch=right.json")):
        shown = run_redline("compare", path, cwd=searched)
        assert shown.returncode == 0, shown.stderr
        assert "Faster: " in shown.stdout


def test_a_search_that_is_killed_leaves_no_process_and_what_it_knew(tmp_path: Path) -> None:
    first = tmp_path / "of" / "trials" / "001-start.json"
    with started(tmp_path, *words(tmp_path, "--try", "switch=right", "--steps", "16"), "--", TUNABLE) as job:
        _wait_for(first.exists)
        job.process.send_signal(signal.SIGKILL)
        job.process.wait()
    _wait_for(lambda: not processes_of(f"{job.process.pid}-"))
    assert read_trial(first) == (None, None)


def test_a_script_that_writes_to_the_users_files_is_not_run_again(tmp_path: Path) -> None:
    code, said = tune(tmp_path, job=(TUNABLE, "--writes", str(tmp_path / "result.txt")))
    assert code == 2
    assert f"it was about to write {tmp_path / 'result.txt'}, and it is run several times" in said
    assert not (tmp_path / "result.txt").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "tune: which command? give it after `--`"),
        (("train.py",), "tune: which command? give it after `--`"),
        (("--faster", "--", "train.py"), "tune: unrecognized arguments: --faster"),
        (("--allow", "faster", "--", "x.py"), "there is no lever 'faster'"),
        (("--format", "html", "--", "x.py"), "tune: an HTML report is 2 MB of text; give it a file"),
        (("--", "sleep", "1"), "tune: levers need a Python program"),
    ],
)
def test_usage_errors_say_what_to_do(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    told = run_redline("tune", *options, cwd=tmp_path)
    assert told.returncode == 2
    assert said in " ".join(told.stderr.split())


def _wait_for(seen: Callable[[], bool]) -> None:
    for _ in range(600):
        if seen():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")
