"""Patches that real git applies: whatever the ends of lines, the names of files and the folder in which it runs."""

import subprocess
from pathlib import Path

import pytest

from redline.tuning.script_diff import unified_diff
from tests.support.patching import apply_patch

BEFORE = "".join(f"line {number}\n" for number in range(20)).encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BEFORE, BEFORE.replace(b"line 3\n", b"line 3\nmore\n")),
        (BEFORE, BEFORE.replace(b"line 3\n", b"").replace(b"line 17", "zeile ü".encode())),
        (BEFORE.replace(b"\n", b"\r\n"), BEFORE.replace(b"\n", b"\r\n").replace(b"line 3", b"other")),
        (BEFORE.rstrip(), BEFORE.rstrip() + b" changed"),
        (BEFORE.rstrip(), BEFORE.rstrip() + b"\nmore"),
        (BEFORE.rstrip(), BEFORE.replace(b"line 3\n", b"", 1).rstrip()),
        (b"a\rb\x0cc\n", b"a\rb\x0cd\n"),
        (b"--- a\n+++ b\n", b"--- a\n+++ c\n"),
    ],
)
@pytest.mark.parametrize("name", ["job.py", "a folder/job.py", "größe.py", 'a"b\\c.py'])
def test_git_applies_it(tmp_path: Path, name: str, before: bytes, after: bytes) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before)
    apply_patch(tmp_path, unified_diff(name, before, after))
    assert path.read_bytes() == after


def test_names_are_relative_to_the_folder_in_which_git_runs(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "inner").mkdir()
    path = tmp_path / "inner" / "job.py"
    path.write_bytes(BEFORE)
    patch = unified_diff("job.py", BEFORE, BEFORE + b"more\n")
    subprocess.run(["git", "apply", "-"], cwd=path.parent, input=patch.encode(), check=True)
    assert path.read_bytes() == BEFORE + b"more\n"


def test_nothing_changed_is_no_patch() -> None:
    assert unified_diff("job.py", BEFORE, BEFORE) == ""
