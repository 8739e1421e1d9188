"""Mutants of snapshots: an answer whose accounts add up, or a refusal in one line; soon, and nothing is run."""

import pickle
import random
import time
from pathlib import Path

import pytest

from redline.errors import InputError, UnexpectedError
from redline.job.read_failures import attempted
from redline.ledger.memory.device_memory import read_device_memories
from tests.support.made_snapshots import MadeAllocator, random_allocator

_MUTANTS, _PARTS = 20_000, 20
_MOST_S = 5.0  # of CPU time for one mutant, on a busy machine
_SPECIAL = [
    b".",
    b"c",
    b"R",
    b"\x93",
    b"(",
    b"}",
    b"]",
    b"u",
    b"e",
    b"\x94",
    b"h\x00",
    b"j\xff\xff\xff\x7f",
    b"\x8a\x09",
]


def _seeds() -> list[bytes]:
    small = MadeAllocator()
    small.alloc(1000, ("f", "a.py", 1))
    made = [small, random_allocator(1, 12), random_allocator(2, 40)]  # small ones: most of the time goes into reading
    return [pickle.dumps(one.snapshot(), protocol) for one in made for protocol in (2, 4)]


def _mutant(seeds: list[bytes], number: int) -> bytes:
    chance = random.Random(number)
    data = bytearray(chance.choice(seeds))
    for _change in range(chance.choice([1, 1, 1, 2, 5, 20])):
        at = chance.randrange(len(data))
        kind = chance.randrange(6)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del data[at : at + chance.choice([1, 2, 8, 100])]
        elif kind == 3:
            data[at:at] = chance.choice(_SPECIAL)
        elif kind == 4:
            end = at + chance.randrange(1, 200)
            data[at:at] = data[at:end]
        else:
            del data[chance.randrange(len(data)) :]
        if not data:
            return b""
    return bytes(data)


def _outcome(path: Path) -> str:
    found = attempted(read_device_memories, path)
    if isinstance(found, InputError):
        assert not isinstance(found, UnexpectedError), found.traceback
        assert "\n" not in str(found)
        return "refused"
    for memory in found:
        assert sum(memory.shown.accounts.values()) == memory.shown.reserved_bytes
    return "read"


def _run(tmp_path: Path, numbers: range) -> dict[str, int]:
    seeds, counts = _seeds(), {"read": 0, "refused": 0}
    path = tmp_path / "mutant.pickle"
    for number in numbers:
        path.write_bytes(_mutant(seeds, number))
        begin = time.process_time()
        counts[_outcome(path)] += 1
        assert time.process_time() - begin < _MOST_S, number
    return counts


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, _PARTS))])
def test_mutants(part: int, tmp_path: Path) -> None:
    each = _MUTANTS // _PARTS
    counts = _run(tmp_path, range(part * each, (part + 1) * each))
    assert min(counts.values()) > each // 20  # both happen: neither is the answer to everything
