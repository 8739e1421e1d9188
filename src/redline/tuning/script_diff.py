"""Levers as a patch of the user's own files, where the places are known; else the lines to paste."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.capture.levers import Lever, environment_of, parse_lever
from redline.capture.places import Place
from redline.errors import InputError
from redline.trials.lever_pages import lever_page_of, short_name
from redline.tuning.lever_changes import changes_of
from redline.tuning.seen_files import FileChange, SeenFiles

_NO_NEWLINE = "\\ No newline at end of file\n"
_CONTEXT = 3


@dataclass(frozen=True, kw_only=True)
class UnplacedLever:
    """A lever that the patch does not make."""

    lever: str
    why: str
    lines: str  # to paste: Markdown of the lever's page; for variables of the environment, what precedes the command

    @property
    def is_line(self) -> bool:
        return "\n" not in self.lines

    @property
    def explained_by(self) -> str:
        return f"redline explain {short_name(parse_lever(self.lever).kind.name)}"


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


def unified_diff(name: str, before: bytes, after: bytes) -> str:
    """`name` is relative to the folder, with `/`. Ends of lines are kept: write it without translating them."""
    if before == after:
        return ""
    # Without a line `diff --git`, names are relative to the folder in which git runs, in a subfolder as well.
    names = [f"{sign} {_quoted(f'{side}/{name}')}\n" for sign, side in (("---", "a"), ("+++", "b"))]
    hunks = difflib.unified_diff(_hunk_lines(before), _hunk_lines(after), n=_CONTEXT)
    body = list(hunks)[2:]
    return "".join([*names, *(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in body)])


def _hunk_lines(data: bytes) -> list[str]:
    """As git counts them: a line ends with a line feed and nothing else."""
    *lines, rest = data.decode().split("\n")
    return [*(f"{line}\n" for line in lines), *([rest] if rest else [])]


def _quoted(name: str) -> str:
    """As git reads names: the end of one with spaces is marked by a tab, letters that it would misread are quoted."""
    if any(letter in '"\\' or ord(letter) < ord(" ") for letter in name):
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(f"\\{ord(one):03o}" if ord(one) < ord(" ") else one for one in escaped) + '"'
    return f"{name}\t" if " " in name else name
