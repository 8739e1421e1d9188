"""Mutants of a record: digests, profiles and configs as nobody wrote them, always the same for a seed and an index.

    made = mutant([config], seed=1, index=7)
    data = as_json(made.record)  # or as_msgpack

A record is of dicts, lists, texts, numbers and bytes. A mutant is wrong in one to four places, where a field is gone or
doubled, of another type, an extreme number, a text that would command a terminal, or nested beyond any reason.
"""

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

Record = dict[str, Any]
Slot = tuple[Any, Any]
"""A dict or list, and a key or place in it."""


class Raw(str):
    """Text that stands in JSON as it is: what JSON has no value for."""

    __slots__ = ()


class Twin(str):
    """A key that a dict has beside an equal one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 7, -(2**31), 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64 - 1),
    *(0.5, -0.5, -0.0, 1e-300, 1e-9, 1e9, 1e15, 1e17, 1e18, 1e30, 1e300, -1e300, 1.7976931348623157e308),
    *(float("nan"), float("inf"), -float("inf")),
)
ODD_JSON = tuple(map(Raw, ("1e400", "-1e400", "7" * 5000, "1" + "0" * 30, "NaN", "Infinity", "00", "", "'x'", '"\\x"')))
TEXTS = (
    *(
        "",
        " ",
        "0",
        "-1",
        "NaN",
        "x" * 10_000,
        "\x1b]52;c;cm0gLXJm\x07",
        "\x1b[2J\x1b[31m",
        "\x9b2J",
        "\r\x1b[K",
        "\x00",
    ),
    *(
        "a\u202eb",
        "a\u2028b",
        "a\u2029b",
        "a\u200bb",
        "a\nredline: fine",
        "a\tb",
        "\x7f\0",
        "\u4e2d\u6587",
        "\U0001f600",
    ),
    *("<script>alert(1)</script>", "</script>", "=1+1", "@x", "|`*_", "{}", "{0}", "{name}", "{0.__class__}", "%s %d"),
    *("gpu", "cpu", "compute", "fp8", "all_reduce", "point_to_point", "0->1", "1->x", "[0, 1]", "[0, ...", "../../etc"),
)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"a": {}}, [None], b"", b"\x08", *NUMBERS[:4], *TEXTS[:4])
_DEEP = 3_000


@dataclass(frozen=True, kw_only=True)
class MutantRecord:
    """A record, and what was done to it."""

    record: Any
    how: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it holds only what any encoder knows."""
        return not {"extreme", "deep", "doubled_key", "odd_bytes"} & set(self.how)


def mutant(seeds: Sequence[Record], seed: int, index: int) -> MutantRecord:
    rng = Random(f"{seed}:{index}")
    record: Any = msgspec.msgpack.decode(msgspec.msgpack.encode(rng.choice(seeds)))  # faster than a deep copy
    if rng.random() < 0.01:
        return MutantRecord(record=rng.choice((*OTHERS, *NUMBERS, *TEXTS)), how=("something else",))
    how = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        mutator = rng.choice(_MUTATORS)
        slot = _slot(record, rng)
        if slot is None:
            break
        mutator(record, slot, rng)
        how.append(mutator.__name__.removeprefix("_"))
    return MutantRecord(record=record, how=tuple(how))


def _slot(record: Any, rng: Random) -> Slot | None:
    """Any place; near the top all fields are as likely, however much there is below them."""
    holder, slot = record, None
    while isinstance(holder, dict | list) and holder and (slot is None or rng.random() < 0.8):
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        slot = holder, key
        holder = holder[key]
    return slot


# --- what is done to a place ------------------------------------------------------------------------------------------


def _removed(_: Any, slot: Slot, __: Random) -> None:
    del slot[0][slot[1]]


def _other_type(_: Any, slot: Slot, rng: Random) -> None:
    slot[0][slot[1]] = deepcopy(rng.choice(OTHERS))


def _extreme(record: Any, slot: Slot, rng: Random) -> None:
    """A number, where there is one; else wherever it is."""
    slot = next((one for _ in range(8) if (one := _slot(record, rng)) and isinstance(_value(one), int | float)), slot)
    old = _value(slot)
    scaled = old * 10 ** rng.choice((-9, -3, 1, 3, 9, 18)) if isinstance(old, int | float) else 0
    slot[0][slot[1]] = rng.choice((rng.choice(NUMBERS),) * 5 + (scaled, scaled, rng.choice(ODD_JSON)))


def _odd_text(record: Any, slot: Slot, rng: Random) -> None:
    slot = next((one for _ in range(8) if (one := _slot(record, rng)) and isinstance(_value(one), str)), slot)
    old, odd = _value(slot), rng.choice(TEXTS)
    slot[0][slot[1]] = rng.choice((odd, old + odd, old[:3] + odd + old[3:])) if isinstance(old, str) else odd


def _everywhere(record: Any, slot: Slot, rng: Random) -> None:
    """The same in all fields of a name."""
    value = rng.choice((rng.choice(NUMBERS), rng.choice(TEXTS), None))
    for holder, key in list(_slots(record)):
        if key == slot[1] and isinstance(key, str):
            holder[key] = value


def _all_texts(record: Any, _: Slot, rng: Random) -> None:
    """Every text of the record, but for those that say what it is, ends with this."""
    odd = rng.choice(TEXTS[6:20])
    for holder, key in list(_slots(record)):
        if isinstance(holder[key], str) and key not in ("kind", "code", "model_type", "_class_name", "base", "when"):
            holder[key] += odd


def _deep(_: Any, slot: Slot, rng: Random) -> None:
    left, right = rng.choice((("[", "]"), ('{"a":', "}")))
    slot[0][slot[1]] = Raw(left * _DEEP + "1" + right * _DEEP)


def _doubled_key(_: Any, slot: Slot, rng: Random) -> None:
    holder, key = slot
    if isinstance(holder, dict):
        holder[Twin(key)] = deepcopy(rng.choice((holder[key], *OTHERS)))
    else:
        holder.insert(key, deepcopy(holder[key]))


def _renamed_key(_: Any, slot: Slot, rng: Random) -> None:
    holder, key = slot
    if isinstance(holder, dict):
        holder[rng.choice((*TEXTS, f"{key}x"))] = holder.pop(key)


def _repeated(_: Any, slot: Slot, rng: Random) -> None:
    value = _value(slot)
    if isinstance(value, list | str | bytes):
        slot[0][slot[1]] = value * rng.choice((0, 2, 3, 50, 1000) if len(value) < 100 else (0, 2, 3))


def _swapped(record: Any, slot: Slot, rng: Random) -> None:
    other = _slot(record, rng)
    if other is not None:
        value = deepcopy(_value(other))
        other[0][other[1]] = deepcopy(_value(slot))
        slot[0][slot[1]] = value


def _odd_bytes(record: Any, slot: Slot, rng: Random) -> None:
    """Columns of numbers: another number, cut, longer, of another width."""
    holders = [one for one in _slots(record) if isinstance(_value(one), bytes) and _value(one)]
    if not holders:
        return _extreme(record, slot, rng)
    holder, key = rng.choice(holders)
    data = bytearray(holder[key])
    at = 1 + 8 * rng.randrange(len(data) // 8 + 1)
    number = rng.choice([one for one in NUMBERS if isinstance(one, int) and -(2**63) <= one < 2**63])
    change = rng.randrange(5)
    if change < 2:
        data[at : at + 8] = struct.pack("<q", number)
    elif change == 2:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif change == 3:
        del data[at:]
    else:
        data[0] = rng.choice((0, 1, 2, 3, 4, 8, 16, 255))
    holder[key] = bytes(data)
    return None


_MUTATORS: tuple[Callable[[Any, Slot, Random], None], ...] = (
    *(_removed, _other_type, _extreme, _extreme, _extreme, _odd_text, _odd_text, _everywhere, _all_texts, _deep),
    *(_doubled_key, _renamed_key, _repeated, _swapped, _odd_bytes),
)


def _value(slot: Slot) -> Any:
    return slot[0][slot[1]]


def _slots(value: Any) -> Iterator[Slot]:
    """All places in order."""
    keys: Sequence[Any] = (
        list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield value, key
        yield from _slots(value[key])


# --- as bytes ---------------------------------------------------------------------------------------------------------


def as_json(value: Any, *, is_plain: bool = False) -> bytes:
    return (json.dumps(value, default=repr) if is_plain else _json(value)).encode("utf-8", "surrogatepass")


def _json(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(str(key))}:{_json(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_json, value)) + "]"
    return json.dumps(value.decode("latin-1") if isinstance(value, bytes) else value)


def as_msgpack(value: Any, *, is_plain: bool = False) -> bytes:
    """What MessagePack cannot hold becomes the nearest that it can."""
    if is_plain:
        return msgspec.msgpack.encode(value)
    if isinstance(value, Raw):
        return b"\x91" * _DEEP + b"\x01" if "[" in value or "{" in value else msgspec.msgpack.encode(value[:100])
    if isinstance(value, dict):
        pairs = (as_msgpack(str(key)) + as_msgpack(one) for key, one in value.items())
        return b"\xdf" + struct.pack(">I", len(value)) + b"".join(pairs)
    if isinstance(value, list | tuple):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(as_msgpack, value))
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        value = float(value)
    return msgspec.msgpack.encode(value.encode("utf-8", "replace").decode() if isinstance(value, str) else value)
