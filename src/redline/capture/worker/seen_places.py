"""The places that were seen in this process, told as they come."""

from __future__ import annotations

import ast
import functools
import json
import os
import sys
import sysconfig
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from types import ModuleType

import torch

import redline
from redline.capture.places import SCRIPT, Place
from redline.capture.worker.counting.call_inputs import locals_of
from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, FrameType
    from typing import Any

    Bindings = Mapping[str, object]

_MOST_LETTERS = 24 << 10  # of all places: there is room for 64 KiB of facts
_MOST_CALLERS = 5
_MOST_BYTES = 4 << 20  # of a file that is parsed
_NOTHING = object()
DIGEST_LETTERS = 16
_INSTALLED = ("/site-packages/", "/dist-packages/")


class SeenPlaces:
    """Each once, with what was known of it at run time."""

    def __init__(self, tell: Callable[[str, object], None]) -> None:
        self.files = OwnFiles()
        self.sites = SourceCalls()
        self._tell = tell
        self._places: dict[str, dict[str, object]] = {}  # by their text
        self._letters = 0
        self._kinds: set[str] = set()

    def add(self, place: Place) -> None:
        """Where there are more than can be told, that itself is told for each kind."""
        if self._letters > _MOST_LETTERS and place.kind != SCRIPT:
            place = Place(kind=place.kind, why_not="it is made or called at more places than could be told")
        told = place.told()
        key = json.dumps(told, sort_keys=True, default=str)
        if key not in self._places:
            self._places[key] = told
            self._letters += len(key)
            self._kinds.add(place.kind)
            self._tell("places", list(self._places.values()))

    def add_script(self) -> None:
        path = self.files.script()
        if path:
            self.add(Place(kind=SCRIPT, file=path, digest=self.sites.digest(path)))

    def add_call(self, kind: str, frame: FrameType | None, called: object, name: str, **details: Any) -> None:
        """The call that this frame is making."""
        if frame is None:
            return
        site = self.site(frame)
        if not self.files.is_own(frame.f_code):
            why_not = "it is done in a package that is not yours"
        elif site.call is None or not is_call_of(site.call, called, name, locals_of(frame), frame.f_globals):
            why_not = "the text does not show what is called there"
        else:
            why_not = ""
        self.add(self.place(kind, site, callee=name, why_not=why_not, details=details))

    def site(self, frame: FrameType) -> SourceCall:
        return self.sites.at(frame.f_code, frame.f_lasti, self.files.path(frame.f_code))

    def place(self, kind: str, site: SourceCall, **others: Any) -> Place:
        return Place(
            kind=kind,
            file=self.files.path(site.code),
            digest=site.digest,
            line=site.line,
            column=site.column,
            end_line=site.end_line,
            end_column=site.end_column,
            function=site.code.co_qualname,
            **others,
        )

    def callers(self, frame: FrameType | None) -> list[dict[str, object]]:
        """Calls in files of the user that led to this one, from the inside out."""
        own = [outer for outer in self.files.outwards(frame) if self.files.is_own(outer.f_code)]
        return [self.place("caller", self.site(outer)).told() for outer in own[:_MOST_CALLERS]]


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
    """From a frame that is calling something to the call in the text of its file. Files are read and parsed once."""

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
    """The object that a name or an attribute stands for, without running anything; `_NOTHING` if not known."""
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
    """The call is of this object: by its value, or by its name where the value is not known."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "__init__":
        return True
    value = value_of(function, *scopes)
    if isinstance(value, functools.partial):
        return False  # it holds arguments that the text of the call does not show
    return value is wanted if value is not _NOTHING else last_name(function) == name


class OwnFiles:
    """Which files are the user's own, and which of the frames that run are in them.

    Those of neither Python, torch, Redline nor an installed package; what has no file is nobody's.
    """

    def __init__(self) -> None:
        self._start = os.getcwd()  # noqa: PTH109
        libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
        self._torch, self._redline = _folder(torch), _folder(redline)
        self._others = (*(os.path.realpath(path) + os.sep for path in libraries if path), self._torch, self._redline)
        self._known: dict[str, str] = {}

    def path(self, code: CodeType) -> str:
        """The real path of the file in which this code stands: a folder of trials is full of links."""
        name = code.co_filename
        if name not in self._known:
            self._known[name] = os.path.realpath(os.path.join(self._start, name))  # noqa: PTH118
        return self._known[name]

    def is_own(self, code: CodeType) -> bool:
        path = self.path(code)
        is_installed = any(part in path for part in _INSTALLED) or path.startswith(self._others)
        return not is_installed and os.path.isfile(path)  # noqa: PTH113

    def is_of_torch(self, code: CodeType) -> bool:
        return self.path(code).startswith(self._torch)

    def outwards(self, frame: FrameType | None) -> Iterator[FrameType]:
        """From this frame to its callers, without those of Redline."""
        while frame is not None:
            if not self.path(frame.f_code).startswith(self._redline):
                yield frame
            frame = frame.f_back

    def script(self) -> str:
        """The main script, if it is a file."""
        name = getattr(sys.modules.get("__main__"), "__file__", None)
        return os.path.realpath(os.path.join(self._start, name)) if isinstance(name, str) else ""  # noqa: PTH118


def _folder(package: ModuleType) -> str:
    return os.path.realpath(os.path.dirname(str(package.__file__))) + os.sep  # noqa: PTH120
