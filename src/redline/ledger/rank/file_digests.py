"""The digests of one file: made of its trace, taken from the cache, or loaded where the file is a digest."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from redline.errors import InputError, UnknownHardwareError
from redline.hardware.machine import Machine, why_unusable
from redline.hardware.profile import choose
from redline.ledger.rank.digest import Digest, MemoryKeeper, RuleMatcher, digest_of
from redline.ledger.rank.digest_cache import DigestCache, kept_digests
from redline.ledger.rank.digest_file import is_digest, load_digest
from redline.ledger.rank.rank_analysis import RankAnalysis, analysis_of
from redline.timeline.timeline import Timeline
from redline.trace.cache import read_cached, worth_keeping
from redline.trace.cache_key import FileState, state_of
from redline.trace.devices import devices_of
from redline.trace.reader import OfFile, ReadOptions

if TYPE_CHECKING:
    from redline.model.served_model import ServedModel


@dataclass(frozen=True, kw_only=True)
class Digesting:
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
