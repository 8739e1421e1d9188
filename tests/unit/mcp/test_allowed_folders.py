"""No path leads out of the folders that were allowed, and each refusal is one line."""

from pathlib import Path

import pytest

from redline.errors import RedlineError, UsageError
from redline.job.find_files import find_traces
from redline.mcp import allowed_folders as allowed_folders_module
from redline.mcp.allowed_folders import AllowedFolders, allowed_folders
from tests.support.command_line import ROOT
from tests.support.made_hostile import folders_with_traps

TRACE = ROOT / "tests" / "data" / "recorded" / "plain_loop.pt.trace.json.gz"


@pytest.fixture(name="trapped")
def _trapped(tmp_path: Path) -> tuple[AllowedFolders, Path, list[str]]:
    allowed, traps = folders_with_traps(tmp_path, TRACE)
    return allowed_folders([str(allowed)]), allowed, traps


def test_hostile_paths_are_refused_in_one_line(trapped: tuple[AllowedFolders, Path, list[str]]) -> None:
    folders, _, traps = trapped
    assert len(traps) >= 25
    for name in traps:
        with pytest.raises(RedlineError) as refusal:
            folders.traces(folders.paths([name]), digests=True)
        text = str(refusal.value)
        assert text.isprintable(), name
        assert len(text) < 1_000, name


def test_what_is_inside_is_found_by_name_and_in_full(trapped: tuple[AllowedFolders, Path, list[str]]) -> None:
    folders, allowed, _ = trapped
    trace = allowed / "rank0.json.gz"
    for name in ("rank0.json.gz", "./inner/../rank0.json.gz", str(trace)):
        assert folders.traces(folders.paths([name]), digests=True) == [trace.resolve()]
    assert folders.path("archive.tar") == (allowed / "archive.tar").resolve()


def test_a_folder_that_is_a_link_is_allowed_as_what_it_points_at(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "t.json").write_text("{}")
    (tmp_path / "link").symlink_to("real")
    assert allowed_folders([str(tmp_path / "link")]).path("t.json") == (tmp_path / "real" / "t.json").resolve()


def test_names_are_looked_up_in_each_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.json").write_text("{}")
    folders = allowed_folders([str(tmp_path / "a"), str(tmp_path / "b")])
    assert folders.path("b.json").parent.name == "b"
    assert folders.path("../a/a.json").parent.name == "a"
    with pytest.raises(RedlineError, match="no such file or folder in the allowed folders"):
        folders.path("c.json")


def test_a_link_that_appears_after_the_folder_was_searched_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed, secret = tmp_path / "allowed", tmp_path / "secret.json.gz"
    allowed.mkdir()
    secret.write_bytes(TRACE.read_bytes())
    (allowed / "a.json.gz").write_bytes(TRACE.read_bytes())

    def slow_search(*_: object, **__: bool) -> list[Path]:
        (allowed / "a.json.gz").unlink()
        (allowed / "a.json.gz").symlink_to(secret)
        return find_traces([allowed], digests=True)

    monkeypatch.setattr(allowed_folders_module, "find_traces", slow_search)
    folders = allowed_folders([str(allowed)])
    with pytest.raises(UsageError, match="a link out of the allowed folders"):
        folders.traces([folders.path(".")], digests=True)


def test_what_cannot_be_allowed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        allowed_folders([str(tmp_path / "none")])
    with pytest.raises(UsageError, match="the whole disk"):
        allowed_folders(["/"])


def test_too_many_paths_and_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = allowed_folders([str(tmp_path)])
    with pytest.raises(UsageError, match="give the folder that they are in"):
        folders.paths(["."] * 1_500)
    (tmp_path / "a").write_text("")
    monkeypatch.setattr(allowed_folders_module, "MOST_ENTRIES", 0)
    with pytest.raises(UsageError, match="give the folder of one recording"):
        folders.traces([folders.path(".")], digests=True)


def test_a_name_with_control_characters_that_a_link_leads_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2J.json").write_text("{}")
    (tmp_path / "plain.json").symlink_to("a\x1b[2J.json")
    with pytest.raises(UsageError, match="rename it first"):
        allowed_folders([str(tmp_path)]).path("plain.json")
