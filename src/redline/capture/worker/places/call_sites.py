"""From a frame that is calling something to the call in the text of its file."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from types import ModuleType

from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

    Bindings = Mapping[str, object]

_MOST_BYTES = 4 << 20  # of a file that is parsed
_NOTHING = object()
DIGEST_LETTERS = 16


@dataclass(frozen=True)
class SourceCall:
    """An instruction that calls, and the expression that it stands for, where the text of the file has it."""

    code: CodeType
    line: int
    column: int
    end_line: int
    end_column: int
    digest: str
    call: ast.Call | None
    statement: ast.stmt | None  # the innermost one around the call


class SourceCalls:
    """Files are read and parsed once."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, dict[tuple[int, int], tuple[ast.Call, ast.stmt]]]] = {}

    def at(self, code: CodeType, instruction: int, path: str) -> SourceCall:
        line, end_line, column, end_column = next(islice(code.co_positions(), instruction // 2, None))
        digest, calls = self._read(path)
        call, statement = calls.get((end_line or 0, end_column or 0), (None, None))
        return SourceCall(code, line or 0, column or 0, end_line or 0, end_column or 0, digest, call, statement)

    def digest(self, path: str) -> str:
        return self._read(path)[0]

    def _read(self, path: str) -> tuple[str, dict[tuple[int, int], tuple[ast.Call, ast.stmt]]]:
        if path not in self._files:
            text = b""
            with tolerated(OSError), open(path, "rb") as file:  # noqa: PTH123
                text = file.read(_MOST_BYTES)
            calls: dict[tuple[int, int], tuple[ast.Call, ast.stmt]] = {}
            with tolerated(SyntaxError, ValueError, RecursionError):
                _collect(ast.parse(text), calls)
            self._files[path] = sha256(text).hexdigest()[:DIGEST_LETTERS], calls
        return self._files[path]


def _collect(tree: ast.AST, calls: dict[tuple[int, int], tuple[ast.Call, ast.stmt]]) -> None:
    """By their ends: no two calls have the same, and the start of a chain of methods is told in several ways."""
    waiting: list[tuple[ast.AST, ast.stmt | None]] = [(tree, None)]
    while waiting:
        node, statement = waiting.pop()
        if isinstance(node, ast.stmt):
            statement = node
        if isinstance(node, ast.Call) and statement is not None:
            calls[node.end_lineno or 0, node.end_col_offset or 0] = node, statement
        waiting.extend((child, statement) for child in ast.iter_child_nodes(node))


def last_name(expression: ast.expr) -> str:
    """`AdamW` of `torch.optim.AdamW`."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""


def value_of(expression: ast.expr, *scopes: Bindings) -> object:
    """What a name or an attribute stands for, without running anything of the script; `_NOTHING` if not known."""
    if isinstance(expression, ast.Name):
        return next((scope[expression.id] for scope in scopes if expression.id in scope), _NOTHING)
    if isinstance(expression, ast.Attribute):
        owner = value_of(expression.value, *scopes)
        known = getattr(owner, "__dict__", None) if owner is not _NOTHING else None
        if not isinstance(known, dict | type(type.__dict__)):
            return _NOTHING
        if expression.attr in known:
            return known[expression.attr]
        children = None if isinstance(owner, ModuleType) else known.get("_modules")
        return children.get(expression.attr, _NOTHING) if isinstance(children, dict) else _NOTHING
    return _NOTHING


def is_call_of(call: ast.Call, wanted: object, name: str, *scopes: Bindings) -> bool:
    """Whether what is called there is this object: by its value, or by its name where the value is not known."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "__init__":
        return True
    value = value_of(function, *scopes)
    if isinstance(value, functools.partial):
        return False  # it holds arguments that the text of the call does not show
    return value is wanted if value is not _NOTHING else last_name(function) == name
