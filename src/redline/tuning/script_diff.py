"""Levers as a patch of the user's own files, where the places are known; else the lines to paste."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.capture.levers import Lever, environment_of
from redline.capture.places import Place
from redline.errors import InputError
from redline.trials.lever_pages import lever_page_of
from redline.tuning.lever_changes import changes_of
from redline.tuning.seen_files import FileChange, SeenFiles
from redline.tuning.unified_diff import unified_diff


@dataclass(frozen=True, kw_only=True)
class UnplacedLever:
    """A lever that the patch does not make."""

    lever: str
    why: str
    lines: str  # to paste: Markdown of the lever's page; for variables of the environment, what precedes the command


@dataclass(frozen=True, kw_only=True)
class ScriptDiff:
    """What does the same as levers, without Redline."""

    patch: (
        str  # for `git apply` in the folder; "" where no lever is placed. Write it with its ends of lines as they are
    )
    placed: tuple[str, ...]  # levers that the patch makes
    unplaced: tuple[UnplacedLever, ...]


def script_diff(levers: Sequence[Lever], places: Sequence[Place], root: Path, language: str = "en") -> ScriptDiff:
    """Each lever is made at all places where it matters, or at none; files outside of `root` are not touched."""
    files = SeenFiles(places, root)
    changes: list[FileChange] = []
    placed: list[str] = []
    unplaced: list[UnplacedLever] = []
    for lever in levers:
        try:
            together = [*changes, *changes_of(lever, levers, files)]
            files.changed(together)
        except InputError as error:
            unplaced.append(UnplacedLever(lever=str(lever), why=str(error), lines=_lines(lever, language)))
        else:
            changes = together
            placed.append(str(lever))
    return ScriptDiff(patch=_patch(files, changes), placed=tuple(placed), unplaced=tuple(unplaced))


def _patch(files: SeenFiles, changes: Sequence[FileChange]) -> str:
    changed = files.changed(changes)
    names = {path: path.relative_to(files.root).as_posix() for path in changed}
    return "".join(unified_diff(names[path], before, after) for path, (before, after) in changed.items())


def _lines(lever: Lever, language: str) -> str:
    if lever.kind.environment:
        return " ".join(f"{name}={shlex.quote(value)}" for name, value in environment_of(lever, {}).items())
    return lever_page_of(lever.kind.name, language).keep
