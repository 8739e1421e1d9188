"""Statements that are put into a file of the user: imports, lines before and after others, a block around one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from redline.errors import InputError
from redline.tuning.source_text import Edit, SourceText

IMPORTED, APART, SET, CHECKPOINTED, COMPILED, RETURNED, AROUND, INDENTED = range(8)  # order of lines at one place

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


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
