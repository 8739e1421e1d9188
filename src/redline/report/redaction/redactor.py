"""Take hosts, users, folders, file names and secrets out of results, and say what was taken out. Amounts stay.

Everything that is text is looked at, wherever it stands in a result: what is added to results later is covered too.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

from redline.errors import RedlineError
from redline.job.read_failures import Failure
from redline.ledger.rank.digest import DigestOrigin
from redline.report.redaction.every_text import OfField, with_every_text
from redline.report.redaction.paths import owners, without_paths
from redline.report.redaction.private import MARK, Private, without_people_and_machines, without_secrets
from redline.timeline.timeline import Metadata, Source, Timeline

Value = TypeVar("Value")

_ENDINGS = re.compile(r"(?:\.(?:pt|trace|json|gz|zst|tmp|tar|tgz|zip|digest))+$")
_MOST_PASSES = 20  # over a text: what stood beside something private may look private without it
_SHORTEST = 3  # letters of the name of a host or user that is looked for in other texts
_COMMON = frozenset(
    {"address", "admin", "app", "aten", "autograd", "conda", "cpu", "cuda", "cudnn", "data", "dev", "docker", "e-mail"}
    | {
        "engine",
        "file",
        "folder",
        "gloo",
        "gpu",
        "home",
        "host",
        "input",
        "job",
        "kernel",
        "local",
        "localhost",
        "main",
    }
    | {"memory", "model", "nccl", "node", "python", "rank", "root", "run", "runner", "secret", "shared", "step", "sync"}
    | {"test", "torch", "train", "trainer", "triton", "ubuntu", "user", "users", "void", "work", "worker", "workspace"}
)
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
        for (kind, _), mark in self._marks.items():
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
