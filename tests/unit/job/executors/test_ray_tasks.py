"""What a node of Ray does with a file, and what stands for one with which it could not begin. Ray is not needed."""

from pathlib import Path

import pytest

from redline import __version__
from redline.errors import InputError, UsageError
from redline.job.executors.ray_tasks import NotDone, explained, on_node


def name_of(path: Path) -> str:
    return path.name


def test_a_node_works_in_the_folder_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").touch()
    monkeypatch.chdir("/")
    assert on_node(name_of, Path("a"), tmp_path, __version__) == "a"


def test_a_file_that_a_node_does_not_see_is_a_failure_that_names_it(tmp_path: Path) -> None:
    """Of one that is nowhere, the work itself says so."""
    reason = on_node(name_of, tmp_path / "a", tmp_path / "nowhere", __version__)
    assert isinstance(reason, NotDone)
    assert not reason.is_visible
    assert explained(name_of, tmp_path / "a", reason) == "a"
    (tmp_path / "a").touch()
    failure = explained(name_of, tmp_path / "a", NotDone(host="node-7", version=__version__, is_visible=False))
    assert isinstance(failure, InputError)
    assert "a: is not visible on node-7, where Ray read it; put the traces on a file system that all" in str(failure)


def test_a_node_with_another_version_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    reason = on_node(name_of, tmp_path / "a", tmp_path, "0.0.1")
    assert reason == NotDone(host=reason.host if isinstance(reason, NotDone) else "", version=__version__)
    with pytest.raises(UsageError, match=r"Ray's worker on node-7 has Redline 0\.0\.1, and this is"):
        explained(name_of, tmp_path / "a", NotDone(host="node-7", version="0.0.1"))
