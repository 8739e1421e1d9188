"""The digests of one file: made of its trace and kept in the cache, loaded where it is a digest; ranks opened again."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
import numpy as np

from redline.errors import InputError, UnknownHardwareError
from redline.hardware.machine import Machine, why_unusable
from redline.hardware.profile import choose
from redline.ledger.rank.digest import Digest, MemoryKeeper, RuleMatcher, digest_of
from redline.ledger.rank.digest_file import decoded, encoded_whole, is_digest, load_digest
from redline.ledger.rank.rank_analysis import RankAnalysis, analysis_of
from redline.timeline.timeline import Timeline
from redline.trace import entries
from redline.trace.cache import READING, FileState, code_key, read_cached, state_of, worth_keeping
from redline.trace.devices import devices_of
from redline.trace.entries import Entry
from redline.trace.reader import OfFile, ReadOptions
from redline.values import dataclass

if TYPE_CHECKING:
    from redline.model.served_model import ServedModel

KIND = "digests"
SCHEMA_VERSION = 1
# All of the package that a digest can depend on; a test watches which files are read while one is made.
ANALYSING = (
    *(*READING, "*.py", "ledger/**/*", "job/**/*", "findings/**/*", "hardware/*"),
    *("model/**/*", "replay/__init__.py", "replay/changes.py", "storage/*", "roofline/**/*"),
)
Result = TypeVar("Result")
RankWork = Callable[[int, RankAnalysis], Result]
"""What is done with a rank, given its place in the job."""


@dataclass(frozen=True, kw_only=True)
class DigestCache:
    """The digests that were made in one way, of all traces."""

    folder: Path
    way: str
    """Everything that they depend on, beside the trace and the code."""

    def holds(self, state: FileState) -> bool:
        entry = self._entry(state)
        return entry is not None and entries.holds(self.folder, entry)

    def load(self, state: FileState) -> tuple[Digest, ...]:
        """Of a file in this state; none where none are kept, or not in a way to be trusted."""
        with suppress(InputError, OSError, msgspec.MsgspecError):
            entry = self._entry(state)
            data = entries.load(self.folder, entry) if entry is not None else b""
            texts = msgspec.msgpack.decode(data, type=tuple[bytes, ...])
            return tuple(decoded(text, KIND, entries.most_inflated_bytes(len(text))) for text in texts)
        return ()

    def save(self, state: FileState, digests: tuple[Digest, ...]) -> None:
        with suppress(InputError, OSError, ValueError):
            entry = self._entry(state)
            if entry is not None:
                data = msgspec.msgpack.encode([encoded_whole(digest, __name__) for digest in digests])
                entries.save(self.folder, entry, [data])

    def _entry(self, state: FileState) -> Entry | None:
        code = code_key(*ANALYSING)
        key = f"{state.key}|{self.way}|{code}"
        return Entry(kind=KIND, schema_version=SCHEMA_VERSION, key=key) if code else None


def kept_digests(
    folder: Path | None,
    options: ReadOptions,
    chosen: Machine | None,
    match: RuleMatcher | None,
    served: "ServedModel | None" = None,
) -> DigestCache | None:
    """Where digests are kept that are made like this; None where the cache is off, or nobody can tell like what."""
    module, name = getattr(match, "__module__", ""), getattr(match, "__qualname__", "<none>")
    if folder is None or (match is not None and (not module.startswith("redline.") or "<" in name)):
        return None
    asked = (options.step_regex, options.strict, options.limits, chosen, served)
    return DigestCache(folder=folder, way=f"{asked}|{module}.{name}|{sys.version}|{np.__version__}")


@dataclass(frozen=True, kw_only=True)
class Digester:
    """How files are digested; the same for each file of a job."""

    reading: ReadOptions
    folder: Path | None  # of the cache
    chosen: Machine | None  # by the user; None matches each trace's device
    served: "ServedModel | None" = None  # of a serving engine, by the user
    match: RuleMatcher | None = None  # looks for causes while the trace is open
    keep_memory: MemoryKeeper | None = None  # what to keep of a trace with memory events
    check: Callable[[Digest, str], None] | None = (
        None  # raises InputError where a digest, from what is named, is not whole
    )

    @cached_property
    def kept(self) -> DigestCache | None:
        return kept_digests(self.folder, self.reading, self.chosen, self.match, self.served)

    def is_digested(self, path: Path) -> bool:
        """Whether nothing is left to analyse: the file is a digest, or its digests are in the cache."""
        with suppress(InputError):
            return is_digest(path) or (self.kept is not None and self.kept.holds(state_of(path)))
        return False

    def digests_of(self, path: Path) -> OfFile[Digest]:
        if is_digest(path):
            digest = load_digest(path)
            self._check(digest, str(path))
            return OfFile(ranks=(digest,), failures=())
        state = state_of(path)
        digests = self._from_cache(state)
        if digests:
            return OfFile(ranks=digests, failures=())
        reading = read_cached(path, self.reading, self.folder)
        digests = tuple(
            digest_of(timeline, *self._machine(timeline), self.match, self.served, self.keep_memory)
            for timeline in reading.timelines
        )
        if self.kept is not None and worth_keeping(reading, state):
            self.kept.save(state, digests)
        return OfFile(ranks=digests, failures=reading.failures)

    def analyses(self, path: Path) -> Iterator[RankAnalysis]:
        """Of each rank in a trace."""
        for timeline in read_cached(path, self.reading, self.folder).timelines:
            yield analysis_of(timeline, self._machine(timeline)[0], self.served)

    def _check(self, digest: Digest, where: str) -> None:
        if self.check is not None:
            self.check(digest, where)

    def _from_cache(self, state: FileState) -> tuple[Digest, ...]:
        """Those that are whole: a cache is believed no more than a file."""
        with suppress(InputError):
            digests = self.kept.load(state) if self.kept is not None else ()
            for digest in digests:
                self._check(digest, "the cache")
            return digests
        return ()

    def _machine(self, timeline: Timeline) -> tuple[Machine | None, str]:
        """What the user chose, else the trace's own device; or why there is none, or not all of it is used."""
        if self.chosen is not None:
            return self.chosen, why_unusable(self.chosen)
        device = next(iter(devices_of(timeline)), None)
        if device is None:
            return None, "the trace does not say which device it ran on; give it with `machine=...`"
        try:
            return choose(None, device.name, device.memory_bytes, device.multiprocessors), ""
        except UnknownHardwareError as error:
            return None, str(error)


@dataclass(frozen=True, kw_only=True)
class RankKey:
    """What tells a rank from the others of a job, before its number is known."""

    source: str
    zero_ns: int
    window_ns: tuple[int, int]

    @classmethod
    def of(cls, digest: Digest) -> "RankKey":
        return cls(source=digest.origin.source, zero_ns=digest.zero_ns, window_ns=digest.window_ns)

    @classmethod
    def of_analysis(cls, analysis: RankAnalysis) -> "RankKey":
        timeline = analysis.timeline
        return cls(source=timeline.source.name, zero_ns=timeline.zero_ns, window_ns=analysis.activity.window_ns)

    def is_from(self, path: Path) -> bool:
        return self.source == str(path) or self.source.startswith(f"{path}!")

    def is_of(self, analysis: RankAnalysis) -> bool:
        return (self.zero_ns, self.window_ns) == (analysis.timeline.zero_ns, analysis.activity.window_ns)


@dataclass(frozen=True, kw_only=True)
class ReopenedRanks(Generic[Result]):
    """The work on each rank of a file, by its place among the keys."""

    digesting: Digester
    keys: tuple[RankKey, ...]
    work: RankWork[Result]

    def __call__(self, path: Path) -> OfFile[tuple[int, Result]]:
        left = {place: key for place, key in enumerate(self.keys) if key.is_from(path)}
        results = []
        for analysis in self.digesting.analyses(path):
            place = next((place for place, key in left.items() if key.is_of(analysis)), None)
            if place is not None:
                del left[place]
                results.append((place, self.work(place, analysis)))
        return OfFile(ranks=tuple(results), failures=())
