"""Digests in the cache, beside the columns of their traces: a trace that was diagnosed once is not analysed again."""

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from redline.errors import InputError
from redline.hardware.machine import Machine
from redline.ledger.rank.digest import Digest, RuleMatcher
from redline.ledger.rank.digest_file import decoded, encoded_whole
from redline.trace import entries
from redline.trace.cache_key import READING, FileState, code_key
from redline.trace.entries import Entry
from redline.trace.reader import ReadOptions

if TYPE_CHECKING:
    from redline.model.served_model import ServedModel

KIND = "digests"
SCHEMA_VERSION = 1
# All of the package that a digest can depend on; a test watches which files are read while one is made.
ANALYSING = (
    *(*READING, "*.py", "ledger/**/*", "job/**/*", "findings/**/*", "hardware/*"),
    *("model/**/*", "replay/__init__.py", "replay/changes.py", "storage/*", "roofline/**/*"),
)


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
