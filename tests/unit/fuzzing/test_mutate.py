"""Mutants are the same each time, cover every mutator, and stay small; excerpts are small traces of the same kind."""

import gzip
import io
import json
import tarfile
from collections import Counter
from pathlib import Path
from random import Random

import pytest
import zstandard

from tests.support.damage.corpus import seed_trace
from tests.support.fuzzing import mutate
from tests.support.fuzzing.mutate import BytesMutator, Parts, StructureMutator, excerpt, mutant, set_field

RECORDED = sorted((Path(__file__).parents[2] / "data" / "recorded").glob("*.json.gz"))
SEEDS = [excerpt(seed_trace(), size) for size in (1500, 4000)]
ROUNDS = 60


def parts_of(data: bytes) -> Parts:
    head = data[: data.index(b"[\n") + 2]
    return Parts(head, [b'{"ph": "X", "name": "a", "ts": 1.000, "args": {"x": 1}}', b'{"ph": "M"}'], b"]}")


def kinds(trace: bytes) -> Counter[tuple[str, str]]:
    return Counter((event["ph"], event.get("cat", "")) for event in json.loads(trace)["traceEvents"])


# excerpts


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_an_excerpt_is_small_sound_and_has_every_kind_of_event(path: Path) -> None:
    whole = gzip.decompress(path.read_bytes())
    small = excerpt(whole, 5000)
    assert len(small) < 6500
    assert set(kinds(small)) == set(kinds(whole))
    before, after = json.loads(whole), json.loads(small)
    assert {key: before[key] for key in before if key != "traceEvents"} == {
        key: after[key] for key in after if key != "traceEvents"
    }


def test_an_excerpt_keeps_kernels_with_their_launches() -> None:
    events = [event for event in json.loads(SEEDS[1])["traceEvents"] if "correlation" in event.get("args", {})]
    pairs = Counter((event["args"]["correlation"], event["cat"]) for event in events)
    linked = {number for number, category in pairs if category == "kernel"} & {
        number for number, category in pairs if category == "cuda_runtime"
    }
    assert linked


def test_an_excerpt_of_broken_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        excerpt(seed_trace()[:5000])


# mutants


def test_a_seed_and_an_index_always_give_the_same_mutant() -> None:
    assert [mutant(SEEDS, 3, index) for index in range(50)] == [mutant(SEEDS, 3, index) for index in range(50)]


def test_mutants_differ_from_their_seeds_and_from_each_other() -> None:
    made = [mutant(SEEDS, 1, index).data for index in range(500)]
    assert sum(data in SEEDS for data in made) < 25
    assert len(set(made)) > 450


def test_every_mutator_is_used_and_named() -> None:
    used = {name for index in range(4000) for name in mutant(SEEDS, 1, index).how}
    tables = (mutate.STRUCTURE_MUTATORS, mutate.BYTES_MUTATORS, mutate.PACKERS, mutate.PACKED_MUTATORS)
    assert used == {mutator.__name__.lstrip("_") for table in tables for mutator in table} | {"crossed", "soup"}


def test_mutants_stay_small() -> None:
    sizes = sorted(len(mutant(SEEDS, 2, index).data) for index in range(2000))
    assert sizes[1000] < 6000
    assert sizes[-1] < 10 * mutate.MOST_BYTES


# mutators


@pytest.mark.parametrize("mutator", dict.fromkeys(mutate.STRUCTURE_MUTATORS), ids=lambda mutator: mutator.__name__)
def test_structure_mutators_change_a_trace_and_bear_one_without_events(mutator: StructureMutator) -> None:
    changed = 0
    for number in range(ROUNDS):
        parts = parts_of(SEEDS[0])
        before = parts.render()
        mutator(parts, Random(number))
        changed += parts.render() != before
        mutator(Parts(b"", [], b""), Random(number))
    assert changed > ROUNDS / 4


@pytest.mark.parametrize(
    "mutator", dict.fromkeys((*mutate.BYTES_MUTATORS, *mutate.PACKED_MUTATORS)), ids=lambda mutator: mutator.__name__
)
def test_bytes_mutators_change_bytes_and_bear_none_at_all(mutator: BytesMutator) -> None:
    changed = 0
    for number in range(ROUNDS):
        changed += mutator(SEEDS[0], Random(number)) != SEEDS[0]
        mutator(b"", Random(number))
    assert changed > ROUNDS / 4


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"ts", b"-1", {"ph": "X", "ts": -1, "args": {"stream": 7}}),
        (b"name", b'"k"', {"name": "k", "ph": "X", "ts": 5, "args": {"stream": 7}}),
        (b"stream", b"null", {"ph": "X", "ts": 5, "args": {"stream": None}}),
        (b"correlation", b"3", {"ph": "X", "ts": 5, "args": {"correlation": 3, "stream": 7}}),
    ],
)
def test_a_field_is_replaced_or_added_where_it_belongs(key: bytes, value: bytes, expected: object) -> None:
    assert json.loads(set_field(b'{"ph": "X", "ts": 5, "args": {"stream": 7}}', key, value)) == expected


def test_an_event_without_arguments_gets_some() -> None:
    assert json.loads(set_field(b'{"ph": "X"}', b"correlation", b"3")) == {"args": {"correlation": 3}, "ph": "X"}


def test_packers_keep_what_they_pack() -> None:
    for number in range(20):
        rng = Random(number)
        assert gzip.decompress(mutate._gzipped(SEEDS[0], rng)) == SEEDS[0]
        with zstandard.ZstdDecompressor().stream_reader(mutate._zstd(SEEDS[0], rng), read_across_frames=True) as stream:
            assert stream.read() == SEEDS[0]
        packed = mutate._tarred(SEEDS[0], rng)
        assert SEEDS[0] in packed
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            assert archive.getnames()


def test_odd_tar_headers_still_have_the_right_checksum() -> None:
    packed = mutate._tarred(SEEDS[0], Random(1))
    opened = 0
    for number in range(ROUNDS):
        odd = mutate._odd_tar_header(packed, Random(number))
        assert odd != packed or number
        header = odd[:512]
        blank = header[:148] + b" " * 8 + header[156:]
        opened += int(header[148:154], 8) == sum(blank)
    assert opened == ROUNDS
