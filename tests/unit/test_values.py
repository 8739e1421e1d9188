"""A frozen class that was made fast is one of the standard library."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

from redline import values

Decorator = Callable[..., Any]


def classes_of(dataclass: Decorator) -> dict[str, Any]:
    """Classes of every kind, by one decorator or the other."""

    @dataclass(frozen=True, kw_only=True)
    class Fruit:
        """Something with defaults."""

        name: str
        weight: int = 3
        seeds: list[int] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False)
        facts: dict[str, int] = field(default_factory=dict, hash=False)

    @dataclass(frozen=True, kw_only=True)
    class Apple(Fruit):
        """Something that inherits and looks at itself."""

        sort: str = "Boskoop"

        def __post_init__(self) -> None:
            if not self.sort:
                raise ValueError("no sort")

    @dataclass(frozen=True, slots=True)
    class Place:
        """Something without a dictionary."""

        row: int
        column: int = 0

    @dataclass(frozen=True, eq=False, repr=False)
    class Thing:
        """Something that is itself alone."""

        name: str

    @dataclass(frozen=True)
    class Own:
        """Something with methods of its own."""

        name: str

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

    @dataclass(frozen=True)
    class Nothing:
        """Something without fields."""

    @dataclass
    class Loose:
        """Something that changes."""

        name: str

    return {made.__name__: made for made in (Fruit, Apple, Place, Thing, Own, Nothing, Loose)}


OURS, THEIRS = classes_of(values.dataclass), classes_of(dataclasses.dataclass)

MADE: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("Fruit", (), {"name": "pear"}),
    ("Fruit", (), {"name": "pear", "weight": 5, "seeds": [1], "note": "ripe"}),
    ("Fruit", (), {}),
    ("Fruit", ("pear",), {}),
    ("Fruit", (), {"name": "pear", "taste": 1}),
    ("Apple", (), {"name": "apple"}),
    ("Apple", (), {"name": "apple", "sort": ""}),
    ("Place", (1,), {}),
    ("Place", (1, 2), {}),
    ("Place", (1, 2, 3), {}),
    ("Thing", ("a",), {}),
    ("Own", ("a",), {}),
    ("Nothing", (), {}),
    ("Loose", ("a",), {}),
)


def told(classes: dict[str, Any], name: str, places: tuple[Any, ...], named: dict[str, Any]) -> object:
    """All that can be seen of an object, or the error of making it."""
    kind = classes[name]
    try:
        one, other = kind(*places, **named), kind(*places, **named)
    except (TypeError, ValueError) as error:
        return str(error)
    return (
        dataclasses.asdict(one),
        one == other,
        one != other,
        one == 1,
        kind.__hash__ is None,
        kind.__match_args__,
        hasattr(one, "__dict__"),
        name == "Thing" or repr(one),
        [f.name for f in fields(one)],
    )


@pytest.mark.parametrize(("name", "places", "named"), MADE)
def test_an_object_is_like_one_of_the_standard_library(
    name: str, places: tuple[Any, ...], named: dict[str, Any]
) -> None:
    for _ in range(2):  # the first one compiles what makes the second
        assert told(OURS, name, places, named) == told(THEIRS, name, places, named)


@pytest.mark.parametrize("name", ["Place", "Thing", "Own"])
def test_a_frozen_object_does_not_change(name: str) -> None:
    for classes in (OURS, THEIRS):
        one = classes[name](1)
        attribute = fields(one)[0].name
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{attribute}'"):
            setattr(one, attribute, 2)
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{attribute}'"):
            delattr(one, attribute)


def test_what_is_not_compared_matters_to_neither_equality_nor_hash() -> None:
    kind = OURS["Fruit"]
    one, other = kind(name="pear", seeds=(), note="ripe"), kind(name="pear", seeds=(), note="")
    assert one == other != replace(one, facts={"sweet": 1})
    assert hash(one) == hash(replace(one, facts={"sweet": 1}))
    assert hash(one) == hash(other)
    assert one != OURS["Apple"](name="pear", seeds=())


def test_defaults_that_are_made_are_made_for_each_object() -> None:
    kind = OURS["Fruit"]
    assert kind(name="a").seeds is not kind(name="a").seeds


def test_common_fields_are_those_of_one_name() -> None:
    apple = OURS["Apple"](name="a", weight=9)
    assert values.common_fields(apple, OURS["Thing"]) == {"name": "a"}
    assert OURS["Fruit"](**values.common_fields(apple, OURS["Fruit"])) == OURS["Fruit"](name="a", weight=9)


def test_an_object_is_replaced() -> None:
    assert replace(OURS["Apple"](name="a"), weight=9) == OURS["Apple"](name="a", weight=9)


@values.dataclass(frozen=True, slots=True)
class Point:
    """Something that is sent to another process."""

    row: int
    column: int = 0


@values.dataclass(frozen=True, kw_only=True)
class Line:
    """The same with a dictionary."""

    begin: Point
    end: Point


def test_an_object_is_copied_and_sent() -> None:
    line = Line(begin=Point(1), end=Point(2, 3))
    assert pickle.loads(pickle.dumps(line)) == copy.copy(line) == copy.deepcopy(line) == line
