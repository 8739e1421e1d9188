"""Take hosts, users, folders, file names and secrets out of results, and say what was taken out. Amounts stay.

Everything that is text is looked at, wherever it stands in a result: what is added to results later is covered too.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, TypeVar, cast

import numpy as np

from redline.errors import RedlineError
from redline.job.read_failures import Failure
from redline.ledger.rank.digest import DigestOrigin
from redline.ledger.rank.packing import PackedRows
from redline.report.language import _, ngettext
from redline.report.redaction.private import (
    MARK,
    Private,
    owners,
    without_paths,
    without_people_and_machines,
    without_secrets,
)  # fmt: skip
from redline.timeline.timeline import Metadata, Source, Timeline
from redline.values import dataclass

Value = TypeVar("Value")

_ENDINGS = re.compile(r"(?:\.(?:pt|trace|json|gz|zst|tmp|tar|tgz|zip|digest))+$")
_MOST_PASSES = 20  # over a text: what stood beside something private may look private without it
_SHORTEST = 3  # letters of the name of a host or user that is looked for in other texts
_COMMON = frozenset(
    {
        "address", "admin", "app", "aten", "autograd", "conda", "cpu", "cuda", "cudnn", "data", "dev", "docker",
        "e-mail", "engine", "file", "folder", "gloo", "gpu", "home", "host", "input", "job", "kernel", "local",
        "localhost", "main", "memory", "model", "nccl", "node", "python", "rank", "root", "run", "runner", "secret",
        "shared", "step", "sync", "test", "torch", "train", "trainer", "triton", "ubuntu", "user", "users", "void",
        "work", "worker", "workspace",
    }
)  # fmt: skip
"""Names of hosts and users that are words of every trace: they tell nothing, and taking them out would spoil names."""


@dataclass(frozen=True, kw_only=True)
class Removed:
    """One kind of thing that was taken out: how many different ones, and what stands in place of one of them."""

    kind: Private
    count: int
    example: str


class Redactor:
    """What was taken out gets a mark, the same for the same thing; marks of two redactors have nothing in common."""

    def __init__(self, salt: bytes = b"") -> None:
        self._salt = salt or secrets.token_bytes(16)
        self._marks: dict[tuple[Private, str], str] = {}
        self._taken: set[str] = set()
        self._named: dict[str, tuple[Private, str]] = {}  # hosts and users by name, in small letters
        self._find_named: re.Pattern[str] | None = None
        self._clean: dict[str, str] = {}

    @property
    def removed(self) -> tuple[Removed, ...]:
        """By kind, in the order of kinds."""
        by_kind: dict[Private, list[str]] = {}
        for (kind, _text), mark in self._marks.items():
            by_kind.setdefault(kind, []).append(mark)
        return tuple(
            Removed(kind=kind, count=len(by_kind[kind]), example=by_kind[kind][0])
            for kind in Private
            if kind in by_kind
        )

    def redacted(self, value: Value) -> Value:
        """The same value with every text in it made clean; hosts and users that it names are known from then on."""
        from redline.ledger.memory.device_memory import DeviceMemory  # reports import this module for its names

        self.learn(value)
        special: OfField = {
            (DigestOrigin, "host"): lambda origin: self.host(origin.host),
            (DigestOrigin, "source"): lambda origin: self.file(origin.source),
            (DeviceMemory, "file"): lambda device: self.file(device.file),
            (Metadata, "host"): lambda metadata: self.host(metadata.host),
            (Source, "path"): lambda source: self.file(source.path),
            (Source, "member"): lambda source: self.file(source.member),
            (Failure, "path"): lambda failure: self.file(failure.path),
            (Failure, "message"): lambda failure: self.message(failure.message, [failure.path]),
            (Timeline, "texts"): lambda timeline: tuple(map(self.text_or_json, timeline.texts)),
        }
        return with_every_text(value, self.text, special)

    def text(self, text: str) -> str:
        if text not in self._clean:
            clean, before = self._once(text), text
            for _ in range(_MOST_PASSES):
                if clean == before:
                    break
                clean, before = self._once(clean), clean
            self._clean[text] = text if clean == text else clean
        return self._clean[text]

    def _once(self, text: str) -> str:
        clean = without_secrets(without_paths(text, self.mark), self.mark)
        return self._without_named(without_people_and_machines(clean, self.mark))

    def text_or_json(self, text: str) -> str:
        """Lists of arguments stay JSON whatever is taken out of them."""
        if text.startswith("[") and self.text(text) != text:
            with suppress(ValueError):
                content = json.loads(text)
                return json.dumps(with_every_text(content, self.text, {}))
        return self.text(text)

    def file(self, name: str) -> str:
        """The name of a trace says who recorded it where, so nothing of it stays but its ending."""
        ending = _ENDINGS.search(name)
        stem = name[: ending.start()] if ending else name
        return (
            name if not name or MARK.fullmatch(stem) else self.mark(Private.FILE, name) + (ending[0] if ending else "")
        )

    def message(self, text: str, files: Iterable[str] = ()) -> str:
        """A text that names these files."""
        for name in sorted(filter(None, files), key=len, reverse=True):
            whole = rf"(?<![\w.-]){re.escape(name)}(?:![^\s:]+)?(?![\w-])"
            text = re.sub(whole, lambda match: self.file(match[0]), text)
        return self.text(text)

    @contextmanager
    def in_errors(self, files: Callable[[], Iterable[str]]) -> Iterator[None]:
        """Errors that we expect, raised inside, are cleaned; `files` are those that they may name."""
        try:
            yield
        except RedlineError as error:
            raise type(error)(self.message(str(error), files())) from None

    def host(self, name: str) -> str:
        return name if not name or MARK.fullmatch(name) else self.mark(Private.HOST, name.lower())

    def mark(self, kind: Private, original: str) -> str:
        mark = self._marks.get((kind, original))
        return mark if mark is not None else self._new_mark(kind, original)

    def _new_mark(self, kind: Private, original: str) -> str:
        """Four digits, more only where those are taken."""
        digits = blake2b(
            f"{kind}:{original}".encode(errors="surrogatepass"), key=self._salt, digest_size=16
        ).hexdigest()
        marks = (f"<{kind}-{digits[:length]}>" for length in range(4, len(digits)))
        mark = next(mark for mark in marks if mark not in self._taken)
        self._taken.add(mark)
        self._marks[kind, original] = mark
        return mark

    # --- names that are known from elsewhere ---

    def learn(self, value: object) -> None:
        """Which hosts and users are named anywhere in a value."""
        before = len(self._named)
        texts: dict[str, str] = {}
        hosts: dict[str, str] = {}
        special: OfField = {
            (record, "host"): lambda origin: hosts.setdefault(origin.host, origin.host)
            for record in (DigestOrigin, Metadata)
        }
        with_every_text(value, lambda text: texts.setdefault(text, text), special)
        for name in map(str.lower, hosts):
            self._learn_name(Private.HOST, name, name)
            self._learn_name(Private.HOST, name, name.partition(".")[0])
        for name in (owner.lower() for text in texts for owner in owners(text)):
            self._learn_name(Private.USER, name, name)
        if len(self._named) > before:
            words = "|".join(map(re.escape, sorted(self._named, key=len, reverse=True)))
            self._find_named = re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])", re.IGNORECASE)
            self._clean.clear()

    def _learn_name(self, kind: Private, name: str, written: str) -> None:
        if len(written) >= _SHORTEST and written not in _COMMON and not MARK.search(written):
            self._named.setdefault(written, (kind, name))

    def _without_named(self, text: str) -> str:
        if self._find_named is None:
            return text
        pieces = re.split(f"({MARK.pattern})", text)  # marks themselves at odd places
        pieces[::2] = [self._find_named.sub(self._marked_name, piece) for piece in pieces[::2]]
        return "".join(pieces)

    def _marked_name(self, match: re.Match[str]) -> str:
        return self.mark(*self._named[match[0].lower()])


# --- every text of a value --------------------------------------------------------------------------------------------

OfText = Callable[[str], str]
OfField = Mapping[tuple[type, str], Callable[[Any], Any]]
"""By record and field, what is to stand there; it is given the record."""

_NUMBERS = (int, float, bool, "int", "float", "bool")


def with_every_text(value: Value, of_text: OfText, of_field: OfField) -> Value:
    """Put another text in place of each one in a value, however deep it stands; numbers and enums stay as they are.

    The value itself where nothing changes. Raises TypeError where it is not known what texts something has.
    """
    return cast(Value, _Walk(of_text, of_field).over(value))


class _Walk:
    def __init__(self, of_text: OfText, of_field: OfField) -> None:
        self._of_text = of_text
        self._of_field = of_field

    def over(self, value: Any) -> Any:
        kind = value.__class__
        if kind is str:
            return self._of_text(value)
        if kind is tuple or kind is list or kind is PackedRows:
            return self._sequence(value)
        if _is_record(kind):
            return self._record(value, kind)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, PurePath):
            return kind(self._of_text(str(value)))
        return _without_text(value)

    def _sequence(self, value: Any) -> Any:
        items = list(value)
        changed = [self.over(item) for item in items]
        if all(a is b for a, b in zip(items, changed, strict=True)):
            return value
        return changed if isinstance(value, list) else tuple(changed)

    def _mapping(self, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
        items = [(self.over(key), self.over(member)) for key, member in value.items()]
        is_same = all(k is a and v is b for (k, v), (a, b) in zip(value.items(), items, strict=True))
        return value if is_same else dict(items)

    def _record(self, record: Any, kind: type) -> Any:
        changed = {}
        for name in _text_fields(kind):
            old = getattr(record, name)
            special = self._of_field.get((kind, name))
            new = special(record) if special is not None else self.over(old)
            if new is not old:
                changed[name] = new
        return replace(record, **changed) if changed else record


@cache
def _is_record(kind: type) -> bool:
    return is_dataclass(kind)


@cache
def _text_fields(record: type) -> tuple[str, ...]:
    """Those that may hold a text."""
    return tuple(field.name for field in fields(record) if field.type not in _NUMBERS)


def _without_text(value: Any) -> Any:
    if value is None or isinstance(value, int | float | Fraction | bytes | Enum | np.number | np.bool_):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    raise TypeError(f"which texts are in a {type(value).__name__} is not known")


# --- in words ---------------------------------------------------------------------------------------------------------


def redacted_text(removed: Sequence[Removed]) -> str:
    """ "redacted: 2 hosts, 14 folders, 1 secret"."""
    parts = [f"{kind_removed.count:,} {_kind(kind_removed)}" for kind_removed in removed]
    return _("redacted: {what}").format(what=", ".join(parts) or _("nothing: no text looked private"))


def _kind(removed: Removed) -> str:
    count = removed.count
    return {
        Private.HOST: ngettext("host", "hosts", count),
        Private.USER: ngettext("user", "users", count),
        Private.FOLDER: ngettext("folder", "folders", count),
        Private.FILE: ngettext("name of a trace", "names of traces", count),
        Private.E_MAIL: ngettext("e-mail address", "e-mail addresses", count),
        Private.ADDRESS: ngettext("network address", "network addresses", count),
        Private.SECRET: ngettext("secret", "secrets", count),
    }[removed.kind]
