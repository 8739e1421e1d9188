"""The files in which places were seen, as far as they may be changed."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.capture.places import Place
from redline.errors import InputError
from redline.tuning.source_text import Edit, SourceText, SourceToken

Argument = ast.keyword | ast.expr


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


@dataclass(frozen=True, kw_only=True)
class ArgumentChange:
    """One argument of one call."""

    call: ast.Call
    name: str
    value: str | None  # None to leave it out
    order: tuple[str, ...]  # of all arguments of what is called
    given: frozenset[str]  # those that the call gave when it ran


def argument_of(change: ArgumentChange) -> Argument | None:
    """The argument as it is written; None where it is not given. Raises InputError where the text does not show it."""
    call, name = change.call, change.name
    keyword = next((keyword for keyword in call.keywords if keyword.arg == name), None)
    if keyword is not None or name not in change.given:
        return keyword
    at = change.order.index(name)
    if at < len(call.args) and not any(isinstance(before, ast.Starred) for before in call.args[: at + 1]):
        return call.args[at]
    raise InputError(f"{name} is given there by * or **")


def edits_of_call(source: SourceText, changes: Sequence[ArgumentChange]) -> list[Edit]:
    """All changes of one call. A new argument takes the place of one that is left out, if there is one."""
    known = {change.name: argument_of(change) for change in changes}
    values: Mapping[str, str | None] = {change.name: change.value for change in changes}
    left_out = [argument for name, argument in known.items() if argument is not None and values[name] is None]
    added = [f"{name}={values[name]}" for name, argument in known.items() if argument is None and values[name]]
    edits = []
    for name, argument in known.items():
        value = values[name]
        if argument is not None and value is not None:
            node = argument.value if isinstance(argument, ast.keyword) else argument
            edits.append(_replaced(source, node, value))
    while left_out and added and isinstance(left_out[0], ast.keyword):
        edits.append(_replaced(source, left_out.pop(0), added.pop(0)))
    edits += [_without(source, changes[0].call, argument) for argument in left_out]
    return edits + (_added(source, changes[0].call, added) if added else [])


def _replaced(source: SourceText, node: Argument, text: str) -> Edit:
    return Edit(source.start(node), source.end(node), 0, text.encode())


def _inside(source: SourceText, call: ast.Call) -> list[SourceToken]:
    """The tokens between the parentheses of the call."""
    return source.tokens_between(_opening(source, call).end, source.end(call) - 1)


def _opening(source: SourceText, call: ast.Call) -> SourceToken:
    tokens = source.tokens_between(source.end(call.func), source.end(call))
    return next(token for token in tokens if token.text == "(")  # what is called may itself be in parentheses


def _added(source: SourceText, call: ast.Call, arguments: list[str]) -> list[Edit]:
    tokens = _inside(source, call)
    text = ", ".join(arguments)
    if not tokens:
        return [Edit(source.end(call) - 1, source.end(call) - 1, 1, text.encode())]
    if (
        len(call.args) == 1
        and isinstance(call.args[0], ast.GeneratorExp)
        and source.end(call.args[0]) == source.end(call)
    ):
        start, end = source.start(call.args[0]), source.end(call) - 1  # its parentheses are those of the call
        return [Edit(start, start, 1, b"("), Edit(end, end, 1, f"), {text}".encode())]
    last = tokens[-1]
    if last.text != ",":
        return [Edit(last.end, last.end, 1, f", {text}".encode())]
    is_closed_below = source.line_start(last.start) != source.line_start(source.end(call) - 1)
    if not is_closed_below:
        return [Edit(last.end, last.end, 1, f" {text},".encode())]
    end = source.line_end(last.end)
    indent = _indent_of_line(source, _last_argument(call, source))
    lines = b"".join(source.newline + indent + argument.encode() + b"," for argument in arguments)
    return [Edit(end, end, 1, lines)]


def _last_argument(call: ast.Call, source: SourceText) -> int:
    arguments: list[Argument] = [*call.args, *call.keywords]
    return max(map(source.start, arguments))


def _indent_of_line(source: SourceText, offset: int) -> bytes:
    line = source.data[source.line_start(offset) : source.line_end(offset)]
    return line[: len(line) - len(line.lstrip(b" \t"))]


def _without(source: SourceText, call: ast.Call, argument: Argument) -> Edit:
    tokens = _inside(source, call)
    start, end = source.start(argument), source.end(argument)
    before = [token for token in tokens if token.end <= start]
    after = [token for token in tokens if token.start >= end]
    comma = next((token for token in after if token.text == ","), None)
    line, line_end = source.line_start(start), source.line_end(end)
    is_alone = not source.data[line:start].strip() and comma is not None and comma.end <= line_end
    if is_alone and comma is not None and not any(comma.end <= token.start < line_end for token in after):
        return Edit(line, _next_line(source, line_end), 0, b"")
    if before and before[-1].text == ",":
        _check_no_comment(source, before[-1].start, start)
        return Edit(before[-1].start, end, 0, b"")
    until = comma.end if comma is not None else end
    following = [token for token in after if token.start >= until]
    return Edit(start, following[0].start if following and comma is not None else until, 0, b"")


def _next_line(source: SourceText, line_end: int) -> int:
    rest = source.data[line_end : line_end + 2]
    return line_end + (2 if rest == b"\r\n" else 1)


def _check_no_comment(source: SourceText, start: int, end: int) -> None:
    if b"#" in source.data[start:end]:
        raise InputError("a comment stands before the argument that would be left out")
