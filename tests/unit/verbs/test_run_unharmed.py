"""Whatever fails in the watcher once the job runs, the job ends as it would have."""

from pathlib import Path

import pytest

from redline.capture.settings import Settings
from redline.capture.shared_state import RANK, SharedState
from redline.capture.supervisor.command import command
from redline.capture.supervisor.run_folder import _remove_parts
from redline.capture.supervisor.stall import StallWatch
from redline.verbs import run as verb


def fail(*_: object) -> None:
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("name", ["rank_record", "leave_behind"])
def test_a_bug_in_the_record_does_not_change_the_end(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, name, fail)
    (tmp_path / "job.py").write_text("import sys; sys.exit(7)")
    ran = verb.run(command(None, [str(tmp_path / "job.py")]), Settings({}), str(tmp_path / "run"))
    assert ran.ended.exit_code == 7


def test_a_bug_in_watching_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StallWatch, "look", fail)
    (tmp_path / "job.py").write_text("import time; time.sleep(0.6)")
    ran = verb.run(command(None, [str(tmp_path / "job.py")]), Settings({}), str(tmp_path / "run"))
    assert ran.ended.exit_code == 0
    assert ran.record.notes == ("watching failed, which is a bug in Redline: ZeroDivisionError: a bug",)


def test_parts_of_other_watchers_stay(tmp_path: Path) -> None:
    slot = SharedState.make(1).claim(0)
    slot.words[RANK] = 1
    (tmp_path / "window-1").mkdir()
    names = [f"rank-{rank}.trace.json.gz{end}" for rank in (1, 11, 2) for end in (".part", ".raw.part", "")]
    for name in names:
        (tmp_path / "window-1" / name).touch()
    _remove_parts(tmp_path, [slot])
    left = {path.name for path in (tmp_path / "window-1").iterdir()}
    assert set(names) - left == {"rank-1.trace.json.gz.part", "rank-1.trace.json.gz.raw.part"}
