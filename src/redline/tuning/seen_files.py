"""The files in which places were seen, as far as they may be changed."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.capture.places import Place
from redline.errors import InputError
from redline.tuning.call_arguments import ArgumentChange, edits_of_call
from redline.tuning.source_text import Edit, SourceText


@dataclass(frozen=True)
class FileChange:
    """One change of one file."""

    path: Path
    change: Edit | ArgumentChange


class SeenFiles:
    """Below a folder. A file that has changed since a place was seen in it is not touched."""

    def __init__(self, places: Sequence[Place], root: Path) -> None:
        self.root = root.resolve()
        self._places = places
        self._sources: dict[Path, SourceText] = {}

    def places(self, kind: str) -> list[Place]:
        return [place for place in self._places if place.kind == kind]

    def source(self, place: Place) -> SourceText:
        """Raises InputError, which says why its text cannot be changed."""
        if place.why_not:
            raise InputError(f"{_where(place)}: {place.why_not}" if place.file else place.why_not)
        path = Path(place.file)
        if not path.is_relative_to(self.root):
            raise InputError(f"{path} is outside {self.root}")
        if path not in self._sources:
            self._sources[path] = SourceText(path)
        source = self._sources[path]
        if not source.digest.startswith(place.digest):
            raise InputError(f"{path} has changed since the job ran")
        return source

    def call(self, place: Place) -> tuple[SourceText, ast.Call]:
        source = self.source(place)
        call = source.call_ending_at(place.end_line, place.end_column)
        if call is None:
            raise InputError(f"{_where(place)}: there is no call")
        return source, call

    def parsed(self) -> list[SourceText]:
        """All files of the user in which something was seen."""
        for place in self._places:
            if not place.why_not and Path(place.file).is_relative_to(self.root):
                self.source(place)
        return list(self._sources.values())

    def changed(self, changes: Sequence[FileChange]) -> dict[Path, tuple[bytes, bytes]]:
        """Each file before and after all changes. Raises InputError where they do not go together."""
        result = {}
        for path in sorted({change.path for change in changes}):
            source = self._sources[path]
            after = source.edited(_edits(source, [change.change for change in changes if change.path == path]))
            try:
                ast.parse(after)
            except SyntaxError as error:
                raise InputError(f"{path} could not be parsed with it, in line {error.lineno}") from None
            result[path] = source.data, after
        return result


def _edits(source: SourceText, changes: Sequence[Edit | ArgumentChange]) -> list[Edit]:
    edits = {change for change in changes if isinstance(change, Edit)}
    arguments = dict.fromkeys(change for change in changes if isinstance(change, ArgumentChange))
    for call in dict.fromkeys(change.call for change in arguments):
        of_call = [change for change in arguments if change.call is call]
        if len({change.name for change in of_call}) < len(of_call):
            raise InputError(f"line {call.lineno} of {source.path.name} would get an argument twice")
        edits |= set(edits_of_call(source, of_call))
    return list(edits)


def _where(place: Place) -> str:
    return f"line {place.line} of {place.file}"
