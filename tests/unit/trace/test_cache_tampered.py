"""Entries of the cache with any field changed and the checksum made right again: refused, or analysed without a fall.

A checksum tells damage, not intent: whoever can write our own files can put another sound timeline into one of them,
and is believed. Values that no trace can be read as are refused, so that nothing worse than that can happen.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard

from redline.errors import InputError
from redline.findings.aggregate import findings_of
from redline.findings.match import match_rules
from redline.job.job import read_job
from redline.job.read_files import JobOptions
from redline.ledger.job.combine import combine
from redline.ledger.job.digests import digest_job
from redline.ledger.job.first_screen import outline_of
from redline.report.diagnose import json as diagnose_json
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.timeline.table import Table
from redline.timeline.timeline import TABLES
from redline.trace import cache, entries, store
from redline.trace.cache import read_cached
from redline.trace.entries import Entry
from redline.trace.reader import ReadOptions, ReadResult
from tests.support.damage.seed import seed_trace

EXTREMES = (0, 1, -1, -2, 2, 7, 255, 10**6, 2**31 - 1, -(2**31), 2**32, 2**53, 2**61, 2**62, 2**63 - 1, -(2**63))
ODD: tuple[Any, ...] = (
    *EXTREMES,
    2**64,
    1.5,
    -1e300,
    "",
    "x",
    "\x1b]52;c;AAAA\x07",
    None,
    True,
    [],
    {},
    [[]],
    {"a": 1},
)
HEAD_BYTES = 8


@pytest.fixture(autouse=True)
def every_trace_is_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WORTH_BYTES", 0)
    monkeypatch.setattr(cache, "_SETTLED_NS", -(10**12))


class Kept:
    """A trace that was diagnosed, its entries, and what they say of it."""

    def __init__(self, folder: Path, cached: Path) -> None:
        self.folder, self.trace = cached, folder / "rank-0.json"
        self.trace.write_bytes(seed_trace())
        self.plain = self.diagnosed(use_cache=False)
        assert self.diagnosed() == self.plain
        (self.columns,) = cached.glob("*.timelines")
        (self.digests,) = cached.glob("*.digests")
        state = cache.state_of(self.trace).key
        key = f"{state}|{ReadOptions().limits}|{cache.code_key(*cache.READING)}"
        self.entry = Entry(kind=store.KIND, schema_version=store.SCHEMA_VERSION, key=key)
        content = bytes(entries.load(cached, self.entry))
        length = int.from_bytes(content[:HEAD_BYTES], "little")
        edge = HEAD_BYTES + length
        self.header = zstandard.ZstdDecompressor().decompress(content[HEAD_BYTES:edge])
        self.body = content[edge:]

    def diagnosed(self, *, use_cache: bool = True) -> str:
        options = JobOptions(jobs=1, use_cache=use_cache)
        found = digest_job([self.trace], None, options, match=match_rules)
        diagnosis = combine(found.digests)
        outline = outline_of(diagnosis)
        findings = findings_of(diagnosis, outline)
        result = DiagnoseResult(diagnosis=diagnosis, outline=outline, findings=findings, failures=found.failures)
        return diagnose_json.render(result)

    def inspected(self) -> None:
        read_job([self.trace], JobOptions(jobs=1))

    def parts(self) -> tuple[dict[str, Any], list[bytes]]:
        (header,) = msgspec.json.decode(self.header)
        blobs, at = [], 0
        for *_, size in header["columns"]:
            blobs.append(self.body[at : at + size])
            at += size
        return header, blobs

    def put(self, header: object, blobs: list[bytes]) -> None:
        """The entry with this content and a right checksum; the digests go, so that the columns are looked at."""
        text = zstandard.ZstdCompressor().compress(msgspec.json.encode([header]))
        entries.save(self.folder, self.entry, [len(text).to_bytes(HEAD_BYTES, "little"), text, *blobs])
        for file in self.folder.glob("*.digests"):
            file.unlink()


@pytest.fixture
def kept(tmp_path: Path, cache_of_the_test: Path) -> Kept:
    return Kept(tmp_path, cache_of_the_test)


def changed_value(chance: random.Random, header: dict[str, Any], blobs: list[bytes]) -> None:
    """Some values of a column."""
    index = chance.randrange(len(blobs))
    values = _column(header, blobs, index)
    if not len(values):
        return
    info = np.iinfo(values.dtype)
    for _ in range(chance.choice((1, 1, 3, 50))):
        new = chance.choice((*EXTREMES, int(values[chance.randrange(len(values))]), chance.randrange(300)))
        values[chance.randrange(len(values))] = min(max(new, info.min), info.max)
    _put_column(header, blobs, index, values)


def changed_column(chance: random.Random, header: dict[str, Any], blobs: list[bytes]) -> None:
    """A whole column: longer, shorter, of one value, of another type, or that of another."""
    index, other = (chance.randrange(len(blobs)) for _ in range(2))
    values = _column(header, blobs, index)
    choices: list[Callable[[], np.typing.NDArray[Any]]] = [
        lambda: values[: len(values) // 2],
        lambda: np.concatenate([values, values]),
        values[::-1].copy,
        lambda: np.full_like(values, chance.choice((0, 1, 100))),
        lambda: values.astype(chance.choice(("<i8", "<i4", "u1", "<f8", ">i8", "<i2"))),
        lambda: _column(header, blobs, other),
    ]
    _put_column(header, blobs, index, chance.choice(choices)())


def changed_header(chance: random.Random, header: dict[str, Any], blobs: list[bytes]) -> None:
    """A field of the header at any depth: another value, none, or one more."""
    at: Any = header
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and chance.random() < 0.8:
            at = at[key]
            continue
        if chance.random() < 0.2:
            del at[key]
        else:
            at[key] = chance.choice(ODD)
        return


def _column(header: dict[str, Any], blobs: list[bytes], index: int) -> np.typing.NDArray[Any]:
    raw = zstandard.ZstdDecompressor().decompress(blobs[index])
    return np.frombuffer(raw, np.dtype(header["columns"][index][2])).copy()


def _put_column(header: dict[str, Any], blobs: list[bytes], index: int, values: np.typing.NDArray[Any]) -> None:
    blobs[index] = zstandard.ZstdCompressor().compress(values.tobytes())
    header["columns"][index][2:] = [values.dtype.str, len(blobs[index])]


MUTATIONS = (changed_value, changed_value, changed_column, changed_header)


def tampered(kept: Kept, seed: int) -> bool:
    """Whether the entry was believed. Whatever it says, inspect and diagnose come to an end."""
    chance = random.Random(seed)
    header, blobs = kept.parts()
    chosen = chance.choices(MUTATIONS, k=chance.choice((1, 1, 2)))
    for mutation in sorted(chosen, key=MUTATIONS.index):  # the header last: it says how to find the columns
        mutation(chance, header, blobs)
    kept.put(header, blobs)
    try:
        store.unpacked(entries.load(kept.folder, kept.entry))
    except InputError:
        assert kept.diagnosed() == kept.plain
        return False
    kept.inspected()
    kept.diagnosed()
    return True


def test_a_tampered_entry_is_refused_or_analysed(kept: Kept) -> None:
    believed = sum(tampered(kept, seed) for seed in range(40))
    assert 5 < believed < 35  # of both kinds


@pytest.mark.slow
def test_thousands_of_tampered_entries_are_refused_or_analysed(kept: Kept) -> None:
    for seed in range(1000, 3000):
        tampered(kept, seed)


def test_a_place_out_of_range_never_reaches_the_analysis(kept: Kept) -> None:
    tables: dict[str, type[Table]] = dict(TABLES)
    tried = set()
    for index, (table, column, *_) in enumerate(kept.parts()[0]["columns"]):
        for value in (-2, 10**6) if column in tables[table].places() else ():
            header, blobs = kept.parts()
            values = _column(header, blobs, index)
            if not len(values):
                continue
            values[-1] = value
            _put_column(header, blobs, index, values)
            kept.put(header, blobs)
            with pytest.raises(InputError, match=rf"{table}\.{column} points into"):
                store.unpacked(entries.load(kept.folder, kept.entry))
            tried.add((table, column))
    assert len(tried) >= 20


def test_a_refused_entry_is_read_again_and_replaced(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    header, blobs = kept.parts()
    header["rank"] = 10**9
    kept.put(header, blobs)
    assert kept.diagnosed() == kept.plain
    monkeypatch.setattr(cache, "read_file", _refuse_to_read)
    assert read_cached(kept.trace, ReadOptions(), kept.folder).timelines[0].rank == 0


def _refuse_to_read(path: Path, options: ReadOptions | None = None) -> ReadResult:
    raise AssertionError(f"{path} was read again")
