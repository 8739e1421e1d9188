"""Records places in a real job, makes a patch of levers, and applies it with git as a user would."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from redline.capture.levers import parse_lever
from redline.capture.places import Place, places_in
from redline.tuning.script_diff import ScriptDiff, script_diff
from tests.support.trial_jobs import TrialEnd, TrialRunner

LOOKED = 4  # steps after which places are known


def seen_places(ended: TrialEnd) -> tuple[Place, ...]:
    assert ended.exit_code == 0, ended.errors
    assert ended.notes == []
    return places_in(ended.facts[0])


def record_places(jobs: TrialRunner, folder: Path, script: str) -> tuple[Place, ...]:
    """`script` is written to job.py of the folder, and stays there."""
    return seen_places(jobs.run(folder, script, last_step=LOOKED, places=True))


def apply_patch(folder: Path, patch: str) -> None:
    """With `git apply`, in a repository of its own that holds the files as they are."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.autocrlf=false")
    for command in ("init -q", "add -A", "commit -q --allow-empty -m before"):
        subprocess.run([*git, *command.split()], cwd=folder, check=True, capture_output=True)
    for command in ("apply --check -", "apply --whitespace=nowarn -"):
        done = subprocess.run(
            [*git, *command.split()], cwd=folder, input=patch.encode(), capture_output=True, check=False
        )
        assert done.returncode == 0, f"{done.stderr.decode()}\n{patch}"


def make_diff(levers: Sequence[str], places: Sequence[Place], folder: Path) -> ScriptDiff:
    return script_diff([parse_lever(lever) for lever in levers], places, folder)


def patched(levers: Sequence[str], places: Sequence[Place], folder: Path) -> str:
    """The script after the patch, which must make all levers."""
    diff = make_diff(levers, places, folder)
    assert diff.unplaced == ()
    assert diff.placed == tuple(str(parse_lever(lever)) for lever in levers)
    apply_patch(folder, diff.patch)
    return (folder / "job.py").read_bytes().decode()
