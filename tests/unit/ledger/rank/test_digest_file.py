"""Digests as files: nothing changes on the way, no file is above the limit, and damage is told in a line or two."""

import random
from contextlib import suppress
from dataclasses import fields, replace
from functools import lru_cache
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from redline.errors import InputError, OutputError
from redline.hardware import catalogue
from redline.ledger.accounts import ACCOUNTS, Account
from redline.ledger.job.combine import RowTable, combine
from redline.ledger.rank.digest import Digest, digest_of
from redline.ledger.rank.digest_file import MOST_BYTES, decoded, encoded, is_digest, load_digest, save_digest
from redline.ledger.rank.kernel_table import KernelRow
from redline.ledger.rank.packing import PackedIntervals, PackedRows, packed
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import NONE
from redline.trace.reader import read_file
from tests.support.events import Event, collective, document, kernel, read_one, region
from tests.support.traces.synthetic import JobSpec, simulate_job, write_rank


@lru_cache
def job() -> tuple[Digest, ...]:
    """Two ranks of a synthetic job."""
    schedule = simulate_job(JobSpec(ranks=2, steps=3, step_compute_us=2000, with_stacks=True))
    with TemporaryDirectory() as folder:
        files = [write_rank(schedule, rank, Path(folder), compress=False).path for rank in range(2)]
        timelines = [read_file(file).timelines[0] for file in files]
    machine = catalogue.match("NVIDIA H100 80GB HBM3")
    return tuple(digest_of(timeline, machine) for timeline in timelines)


@lru_cache
def crowded(seed: int = 0, world_size: int = 2) -> Digest:
    """A rank with 20,000 exchanges of hundreds of kinds, 5,000 kernels, and 40,000 stretches of exposed time."""
    chance = random.Random(seed)
    events: list[Event] = [region(f"ProfilerStep#{step}", 20_000 * step, 20_000) for step in range(10)]
    for number in range(20_000):
        at = 10 * number + chance.random()
        described = {"In msg nelems": chance.randrange(1, 500), "Process Group Ranks": "[0, 1]"}
        events += [
            collective(at, 7 + chance.random(), args=described),
            kernel(f"kernel_{chance.randrange(5000)}", at + 1 + 4 * chance.random(), 0.1 + chance.random()),
        ]
    with TemporaryDirectory() as folder:
        return digest_of(read_one(document(events, rank=seed, world_size=world_size), Path(folder)), None)


@lru_cache
def fragmented() -> Digest:
    """A rank with few exchanges, that short kernels hide in 30,000 places."""
    chance = random.Random(0)
    events = [collective(100_000 * number, 99_000) for number in range(4)]
    events += [kernel("k", 10 * number + 5 * chance.random(), 4 * chance.random()) for number in range(40_000)]
    with TemporaryDirectory() as folder:
        return digest_of(read_one(document(events, rank=0, world_size=2), Path(folder)), None)


def plain(value: Any) -> Any:
    """Something that can be compared with ==, whatever arrays and nan it holds."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind, value.tolist()
    if isinstance(value, PackedRows | RowTable):
        return plain(tuple(value))
    if isinstance(value, Intervals):
        return value.start.tolist(), value.end.tolist()
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return "nan" if isinstance(value, float) and isnan(value) else value


# --- there and back ---------------------------------------------------------------------------------------------------


def test_every_field_returns_as_it_was(tmp_path: Path) -> None:
    digest = job()[0]
    hooks = PackedIntervals.of(Intervals(*(digest.window_ns[0] + np.array([[10, 500], [200, 900]]))))
    digest = replace(digest, packed_fsdp_hooks=hooks, step_work=(5, 6), step_queue_ns=(0, 7))
    assert len(digest.exchanges)
    assert digest.doing
    path = tmp_path / "rank-00000.digest"
    saved = save_digest(digest, path, made_by="a test")
    assert path.stat().st_size == saved.size_bytes <= MOST_BYTES
    assert not saved.left_out
    found = load_digest(path)
    for field in fields(Digest):
        assert plain(getattr(found, field.name)) == plain(getattr(digest, field.name)), field.name
    assert any(isnan(row.math_ns) for row in found.kernels)
    assert is_digest(path)
    assert not is_digest(tmp_path / "rank-00000.json")


def test_a_rank_without_steps_work_or_exchanges_returns_too() -> None:
    with TemporaryDirectory() as folder:
        digest = digest_of(read_one(document([region("nothing", 0, 5)]), Path(folder)), None)
    assert plain(decoded(encoded(digest, "a test"), "here")) == plain(digest)


def test_numbers_of_collectives_return_and_take_no_room_where_there_are_none() -> None:
    digest = job()[0]
    assert (digest.exchanges.sequence >= 0).all()
    none = replace(digest.exchanges, sequence=np.full(len(digest.exchanges), NONE))
    without = replace(digest, exchanges=none)
    assert (decoded(encoded(without, "a test"), "here").exchanges.sequence == NONE).all()
    assert len(encoded(without, "a test")) < len(encoded(digest, "a test"))


def test_as_many_numbers_as_exchanges() -> None:
    text = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(encoded(job()[0], "a test")))
    text["sequence"] = packed(np.arange(3)[None, :])
    with pytest.raises(InputError, match="3 numbers of"):
        decoded(zstandard.ZstdCompressor().compress(msgspec.msgpack.encode(text)), "here")


def test_the_same_digest_gives_the_same_bytes() -> None:
    assert encoded(job()[0], "a test") == encoded(job()[0], "a test")


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.digest"
    save_digest(job()[0], path, made_by="a test")
    with pytest.raises(OutputError, match="force=True"):
        save_digest(job()[1], path, made_by="a test")
    save_digest(job()[1], path, made_by="a test", force=True)
    assert load_digest(path).origin.rank == 1


def test_digests_that_went_through_files_combine_to_the_same_diagnosis() -> None:
    read_back = [decoded(encoded(digest, "a test"), "here") for digest in job()]
    assert plain(combine(read_back)) == plain(combine(job()))


# --- within the limit -------------------------------------------------------------------------------------------------


def test_a_crowded_trace_stays_within_the_limit() -> None:
    digest = crowded()
    assert len(digest.exchanges) == 20_000
    assert len(digest.exposed) >= 30_000
    assert len(digest.kernels) > 4_500
    data = encoded(digest, "a test")
    assert MOST_BYTES // 2 < len(data) <= MOST_BYTES
    short = decoded(data, "here")
    assert short.left_out["exchanges"] == 20_000 - len(short.exchanges)
    assert short.left_out["intervals"] == len(digest.exposed) - len(short.exposed)
    assert short.left_out["kernel_rows"] == len(digest.kernels) - (len(short.kernels) - 1)
    assert sum(row.time_ns for row in short.kernels) == digest.facts.kernel_ns
    assert plain(short.ledger) == plain(digest.ledger)


def test_what_is_kept_is_the_most_important() -> None:
    digest, short = crowded(), decoded(encoded(crowded(), "a test"), "here")
    others, *kept_rows = short.kernels  # all that have no row of their own are more than any that has one
    assert others.operator == "(others)"
    assert plain(tuple(kept_rows)) == plain(digest.kernels[: len(kept_rows)])
    assert len(kept_rows) >= 16
    kept = len(short.exchanges)
    assert kept > 200
    assert short.exchanges.start_ns.tolist() == digest.exchanges.start_ns[:kept].tolist()
    assert [short.series[number] for number in short.exchanges.series.tolist()] == [
        digest.series[number] for number in digest.exchanges.series[:kept].tolist()
    ]


def test_exposed_time_loses_its_smallest_gaps_only() -> None:
    digest = fragmented()
    data = encoded(digest, "a test")
    assert len(data) <= MOST_BYTES
    found = decoded(data, "here")
    exact, short = digest.exposed, found.exposed
    assert len(exact) > 30_000 > len(short) > 1000
    assert found.left_out["intervals"] == len(exact) - len(short)
    assert len(found.exchanges) == len(digest.exchanges)
    assert not len(exact - short)
    closed = short - exact
    kept_gaps = short.start[1:] - short.end[:-1]
    assert int((closed.end - closed.start).max()) <= int(kept_gaps.min())


def test_exposed_time_ends_with_the_last_exchange_that_is_kept() -> None:
    digest, short = crowded(), decoded(encoded(crowded(), "a test"), "here")
    last_ns = int(short.exchanges.end_ns.max())
    assert short.exposed == digest.exposed.clip(0, last_ns)


def test_shortened_digests_still_make_ledgers_that_add_up() -> None:
    whole = (replace(fragmented(), origin=replace(fragmented().origin, rank=2)), crowded(0), crowded(1))
    short = [decoded(encoded(digest, "a test"), "here") for digest in whole]
    exact, found = combine(whole), combine(short)
    for rank in found.ranks:
        rank.ledger.self_check()
    assert found.exposed_ns == exact.exposed_ns
    for account in ACCOUNTS:
        if account not in {Account.TRANSFER, Account.PEER_WAIT}:
            assert found.per_step[account] == exact.per_step[account]


def test_waiting_never_exceeds_what_was_exposed() -> None:
    first, second = job()
    everything = Intervals(np.array([0]), np.array([first.window_ns[1]]))
    early = first.exchanges.columns() | {"start_ns": first.exchanges.start_ns - 10_000_000}
    hidden = replace(first, packed_exposed=PackedIntervals.of(everything), exchanges=type(first.exchanges)(**early))
    for rank in combine([hidden, second]).ranks:
        rank.ledger.self_check()


def test_nothing_but_steps_can_exceed_the_limit() -> None:
    long = "x" * 160
    rows = tuple(
        KernelRow(
            operator=long + str(number),
            kernel=random.Random(number).randbytes(80).hex(),
            shapes=random.Random(-number).randbytes(80).hex(),
            dtype="",
            calls=number,
            kernels=number,
            time_ns=10_000 - number,
            flops=0,
            bytes=0,
            math_ns=float("nan"),
            memory_ns=float("nan"),
        )
        for number in range(1, 200)
    )
    digest = replace(crowded(), kernels=rows)
    assert len(encoded(digest, "a test")) <= MOST_BYTES


# --- damage -----------------------------------------------------------------------------------------------------------


def refused(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        decoded(data, "some.digest")
    message = str(caught.value)
    assert message.startswith("some.digest")
    assert message.count("\n") <= 1
    assert len(message) < 400
    return message


def repacked(**changes: object) -> bytes:
    """A digest file in which some parts were replaced."""
    content = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(encoded(job()[0], "a test")))
    return zstandard.ZstdCompressor().compress(msgspec.msgpack.encode({**content, **changes}))


def test_what_is_no_digest_is_refused() -> None:
    for data in (b"", b"{}", b'{"schemaVersion": 1, "traceEvents": []}', b"\x28\xb5\x2f\xfd", b"\0" * 100):
        assert "not a digest" in refused(data)
    assert "not a digest" in refused(zstandard.ZstdCompressor().compress(b"some text"))
    assert "not a digest" in refused(zstandard.ZstdCompressor().compress(msgspec.msgpack.encode({"a": 1})))


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_truncated_file_is_refused(share: float) -> None:
    data = encoded(job()[0], "a test")
    assert "damaged" in refused(data[: int(len(data) * share)])


def test_a_file_with_something_after_it_is_refused() -> None:
    assert "damaged" in refused(encoded(job()[0], "a test") + b"more")


@given(st.data())
def test_a_changed_byte_is_noticed_or_harmless(data: st.DataObject) -> None:
    original = encoded(job()[0], "a test")
    place = data.draw(st.integers(0, len(original) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda value: value != original[place]))
    changed = original[:place] + bytes([value]) + original[place + 1 :]
    with suppress(InputError):
        assert plain(decoded(changed, "some.digest")) == plain(job()[0])


@pytest.mark.parametrize(
    "changes",
    [
        {"ledger": b""},
        {"ledger": b"\x03" + 200 * b"\0"},
        {"ledger": b"\x04" + 201 * b"\0"},
        {"outside": [1, 2]},
        {"outside": 12 * [-1]},
        {"window_ns": [0, 1]},
        {"exposed": b"\x08" + (5).to_bytes(8, "little") + (3).to_bytes(8, "little")},
        {"fsdp_hooks": b"\x08" + (5).to_bytes(8, "little") + (3).to_bytes(8, "little")},
        {"exchanges": b"\x08\0"},
        {"series": []},
        {"facts": {}},
        {"origin": None},
        {"kernels": [{"operator": 5}]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_content_that_breaks_a_promise_is_refused(changes: dict[str, object]) -> None:
    assert "damaged" in refused(repacked(**changes))


def test_an_earlier_version_says_to_make_it_anew() -> None:
    """It lacks what rules saw, and would look healthy. That it lacks a field besides is not what to say."""
    content = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(encoded(job()[0], "a test")))
    old = {**content["envelope"], "schema_version": 1, "redline_version": "0.0.9"}
    rest = {name: value for name, value in content.items() if name not in ("envelope", "sightings")}
    data = zstandard.ZstdCompressor().compress(msgspec.msgpack.encode({"envelope": old, **rest}))
    assert refused(data).startswith("some.digest was written by Redline 0.0.9, before this version")
    assert refused(data).endswith("Make it anew from its trace: redline digest")


def test_a_later_version_says_to_upgrade() -> None:
    content = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(encoded(job()[0], "a test")))
    assert "upgrade" in refused(repacked(envelope={**content["envelope"], "schema_version": 99}))
    assert "'profile'" in refused(repacked(envelope={**content["envelope"], "kind": "profile"}))


@pytest.mark.parametrize("states_its_size", [True, False])
def test_a_small_file_that_inflates_to_gigabytes_is_refused(states_its_size: bool) -> None:
    squeeze = zstandard.ZstdCompressor(write_content_size=states_its_size)
    bomb = squeeze.compress(bytes(50_000_000))
    assert len(bomb) < 10_000
    assert "not a digest" in refused(bomb)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .* as a digest: No such file or directory; check its name"):
        load_digest(tmp_path / "absent.digest")
    with pytest.raises(InputError, match="is a folder; give the name of an ordinary file"):
        load_digest(tmp_path)
