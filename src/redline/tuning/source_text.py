"""A file of Python source that is changed at exact places; all other bytes stay as they are."""

from __future__ import annotations

import ast
import io
import tokenize
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from redline.errors import InputError

_BOM = b"\xef\xbb\xbf"
_INDENT = b"    "
_LAYOUT = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT})
IMPORTED, APART, SET, CHECKPOINTED, COMPILED, RETURNED, AROUND, INDENTED = range(8)  # order of lines at one place
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, order=True)
class Edit:
    """Bytes from `start` on, before `end`, become others; edits at the same place are made in order of `rank`."""

    start: int
    end: int
    rank: int
    text: bytes


@dataclass(frozen=True)
class SourceToken:
    """A token that is neither layout nor a comment, with its place in bytes."""

    text: str
    start: int
    end: int


class SourceText:
    """Raises InputError, which says why, where the file cannot be read, is not UTF-8, or is not Python."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.data = path.read_bytes()
            encoding, _ = tokenize.detect_encoding(io.BytesIO(self.data).readline)
            self.data.decode("utf-8")
            self.tree = ast.parse(self.data)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        except (SyntaxError, ValueError, RecursionError) as error:
            raise InputError(f"{path} cannot be parsed: {type(error).__name__}") from None
        if encoding not in {"utf-8", "utf-8-sig"}:
            raise InputError(f"{path} is not in UTF-8")
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._first = len(_BOM) if self.data.startswith(_BOM) else 0
        self._tokens: list[SourceToken] | None = None
        self._parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.newline = b"\r\n" if 2 * self.data.count(b"\r\n") > self.data.count(b"\n") else b"\n"
        self.indent = self._usual_indent()

    @property
    def digest(self) -> str:
        return sha256(self.data).hexdigest()

    def offset(self, line: int, column: int) -> int:
        """In bytes, of a place as `ast` counts it."""
        return self._starts[line - 1] + column + (self._first if line == 1 else 0)

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def text(self, node: ast.expr) -> str:
        return self.data[self.start(node) : self.end(node)].decode()

    def line_start(self, offset: int) -> int:
        return self._starts[bisect_right(self._starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """Behind the last byte of its line, before the end of the line."""
        at = bisect_right(self._starts, offset)
        end = self._starts[at] if at < len(self._starts) else len(self.data)
        return self.line_start(offset) + len(self.data[self.line_start(offset) : end].rstrip(b"\r\n"))

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the inside out."""
        parent = self._parents.get(node)
        while parent is not None:
            yield parent
            parent = self._parents.get(parent)

    def call_ending_at(self, line: int, column: int) -> ast.Call | None:
        calls = (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))
        return next((call for call in calls if (call.end_lineno, call.end_col_offset) == (line, column)), None)

    def statement_of(self, node: ast.AST) -> ast.stmt:
        return next(known for known in (node, *self.ancestors(node)) if isinstance(known, ast.stmt))

    def indent_of(self, statement: ast.stmt) -> bytes | None:
        """The bytes before it in its line; None where other statements or a colon are there."""
        start = self.start(statement)
        before = self.data[max(self.line_start(start), self._first if statement.lineno == 1 else 0) : start]
        return before if not before.strip(b" \t\x0c") else None

    def is_last_of_line(self, statement: ast.stmt) -> bool:
        rest = self.data[self.end(statement) : self.line_end(self.end(statement))].lstrip(b" \t")
        return not rest or rest.startswith(b"#")

    def tokens(self) -> list[SourceToken]:
        if self._tokens is None:
            self._tokens = list(self._read_tokens())
        return self._tokens

    def tokens_between(self, start: int, end: int) -> list[SourceToken]:
        return [token for token in self.tokens() if start <= token.start and token.end <= end]

    def _read_tokens(self) -> Iterator[SourceToken]:
        text = self.data[self._first :].decode()
        lines = io.StringIO(text, newline="")  # so that ends of lines stay what they are
        for token in tokenize.generate_tokens(lines.readline):
            if token.type not in _LAYOUT and token.string:
                (line, column), (end_line, end_column) = token.start, token.end
                yield SourceToken(token.string, self._of_letter(line, column), self._of_letter(end_line, end_column))

    def _of_letter(self, line: int, column: int) -> int:
        first = self._starts[line - 1] + (self._first if line == 1 else 0)
        text = self.data[first : self._starts[line] if line < len(self._starts) else len(self.data)]
        return first + len(text.decode()[:column].encode())

    def _usual_indent(self) -> bytes:
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body:
                outer, inner = self.indent_of(node), self.indent_of(body[0])
                if outer is not None and inner is not None and inner.startswith(outer) and len(inner) > len(outer):
                    return inner[len(outer) :]
        return _INDENT

    def edited(self, edits: list[Edit]) -> bytes:
        """Raises InputError where two edits want the same bytes."""
        ordered = sorted(edits)
        if any(first.end > second.start for first, second in pairwise(ordered)):
            raise InputError(f"{self.path}: two changes want the same text")
        pieces, at = [], 0
        for edit in ordered:
            pieces += [self.data[at : edit.start], edit.text]
            at = edit.end
        return b"".join([*pieces, self.data[at:]])


def lines_after(source: SourceText, statement: ast.stmt, lines: Sequence[str], rank: int) -> Edit:
    indent = _indent(source, statement)
    if not source.is_last_of_line(statement):
        raise InputError(f"{_at(source, statement)} has several statements")
    end = source.line_end(source.end(statement))
    return Edit(end, end, rank, b"".join(source.newline + _line(source, indent, line) for line in lines))


def lines_before(source: SourceText, statement: ast.stmt, lines: Sequence[str], rank: int) -> Edit:
    """Above comments that stand directly before it."""
    indent = _indent(source, statement)
    start = source.line_start(source.start(statement))
    while start > 0:
        above = source.line_start(start - 1)
        if not source.data[above:start].startswith(indent + b"#"):
            break
        start = above
    return Edit(start, start, rank, b"".join(_line(source, indent, line) + source.newline for line in lines))


def block_around(source: SourceText, statement: ast.stmt, head: str) -> list[Edit]:
    """The statement inside of a `with`; its lines are moved to the right."""
    indent = _indent(source, statement)
    if not source.is_last_of_line(statement):
        raise InputError(f"{_at(source, statement)} has several statements")
    if any(_is_text_of_lines(node) for node in ast.walk(statement)):
        raise InputError(f"{_at(source, statement)} holds a text of several lines, which cannot be indented")
    start = source.line_start(source.start(statement))
    edits = [Edit(start, start, AROUND, _line(source, indent, head) + source.newline)]
    last = statement.end_lineno or statement.lineno
    for number in range(statement.lineno, last + 1):
        at = source.offset(number, 0)
        if source.data[at : source.line_end(at)].strip():
            edits.append(Edit(at, at, INDENTED, source.indent))
    return edits


def after_imports(source: SourceText, lines: Sequence[str], rank: int) -> Edit:
    """Where torch has been imported, behind the imports that follow at once; else behind the last import of all."""
    anchor = _import_of(source, "torch") or _last_import(source)
    if anchor is None:
        raise InputError(f"{source.path} imports nothing at its top")
    body = source.tree.body
    at = body.index(anchor)
    while at + 1 < len(body) and isinstance(body[at + 1], ast.Import | ast.ImportFrom):
        at += 1
    return lines_after(source, body[at], lines, rank)


def imported(source: SourceText, module: str) -> list[Edit]:
    """What makes this name known in the file."""
    if _import_of(source, module) is not None:
        return []
    return [after_imports(source, [f"import {module}"], IMPORTED)]


def unused_name(source: SourceText, statement: ast.stmt, *names: str) -> str:
    """The first of these that the function around the statement does not use, or the file where there is none."""
    functions = [node for node in source.ancestors(statement) if isinstance(node, _FUNCTIONS)]
    start, end = (source.start(functions[-1]), source.end(functions[-1])) if functions else (0, len(source.data))
    used = {token.text for token in source.tokens_between(start, end)}
    return next((name for name in names if name not in used), f"{names[-1]}_")


def _import_of(source: SourceText, module: str) -> ast.stmt | None:
    """The statement at the top of the file that binds the name of the module."""
    for statement in source.tree.body:
        if isinstance(statement, ast.Import):
            names = [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
            bound = [alias for alias in statement.names if alias.asname in {None, module}]
            if module in names and any(alias.name.partition(".")[0] == module for alias in bound):
                return statement
    return None


def _last_import(source: SourceText) -> ast.stmt | None:
    found = [statement for statement in source.tree.body if isinstance(statement, ast.Import | ast.ImportFrom)]
    return found[-1] if found else None


def _indent(source: SourceText, statement: ast.stmt) -> bytes:
    indent = source.indent_of(statement)
    if indent is None:
        raise InputError(f"{_at(source, statement)} has several statements")
    return indent


def _line(source: SourceText, indent: bytes, line: str) -> bytes:
    """Leading tabs of a line stand for levels of indentation."""
    text = line.lstrip("\t")
    return indent + source.indent * (len(line) - len(text)) + text.encode() if text else b""


def _at(source: SourceText, statement: ast.stmt) -> str:
    return f"line {statement.lineno} of {source.path.name}"


def _is_text_of_lines(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )
    return is_text and getattr(node, "end_lineno", 0) != getattr(node, "lineno", 0)


def loops_around(source: SourceText, node: ast.AST) -> Iterator[ast.stmt]:
    """Loops of the same function, from the inside out."""
    for outer in source.ancestors(node):
        if isinstance(outer, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return
        if isinstance(outer, ast.For | ast.While):
            yield outer
