"""Mutants of records: the same for a seed and an index, of every kind, and bytes whatever is in them."""

import json
from collections import Counter

import msgspec

from tests.support.fuzzing import mutate_records
from tests.support.fuzzing.mutate_records import Raw, Twin, as_json, as_msgpack, mutant

SEEDS = [{"kind": "x", "name": "a", "count": 3, "rows": [{"name": "b", "share": 0.5}], "column": b"\x08" + bytes(16)}]


def test_the_same_seed_and_index_give_the_same_bytes() -> None:
    for index in range(50):
        made, again = mutant(SEEDS, 1, index), mutant(SEEDS, 1, index)
        assert as_json(made.record) == as_json(again.record)
        assert as_msgpack(made.record) == as_msgpack(again.record)
    assert SEEDS[0]["count"] == 3  # a seed is never changed


def test_every_mutator_is_used_and_changes_something() -> None:
    used: Counter[str] = Counter()
    whole = as_msgpack(SEEDS[0])
    changed = 0
    for index in range(2_000):
        made = mutant(SEEDS, 2, index)
        used.update(made.how)
        changed += as_msgpack(made.record) != whole
    names = {mutator.__name__.removeprefix("_") for mutator in mutate_records._MUTATORS}
    assert names <= set(used)
    assert changed > 1_800


def test_plain_mutants_have_the_same_meaning_either_way() -> None:
    plain = [made for made in (mutant(SEEDS, 3, index) for index in range(300)) if made.is_plain]
    assert len(plain) > 100
    for made in plain:
        fast, slow = as_msgpack(made.record, is_plain=True), as_msgpack(made.record)
        assert repr(msgspec.msgpack.decode(fast)) == repr(msgspec.msgpack.decode(slow))


def test_what_no_encoder_writes_is_written() -> None:
    assert as_json({"a": Raw("1e400"), Twin("a"): 1}) == b'{"a":1e400,"a":1}'
    assert json.loads(as_json({"a": float("nan")}))["a"] != 1
    assert as_msgpack({"a": 1, Twin("a"): 2}).count(b"\xa1a") == 2
    assert msgspec.msgpack.decode(as_msgpack([2**64, -(2**70)])) == [float(2**64), -float(2**70)]
