"""A table is columns of one length."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from redline.timeline.table import I64, Column, Table, column


class Fruit(Table):
    """A table of two columns."""

    weight: I64 = column(np.int64)
    colour: Column = column(np.uint8)


FRUIT = Fruit(weight=np.array([10, 20, 30]), colour=np.array([1, 2, 3], np.uint8))


def test_the_length_is_that_of_its_columns() -> None:
    assert len(FRUIT) == 3
    assert len(Fruit.empty()) == 0


def test_an_empty_table_has_the_declared_types() -> None:
    assert Fruit.layout() == {"weight": np.dtype(np.int64), "colour": np.dtype(np.uint8)}
    assert {name: array.dtype for name, array in Fruit.empty().columns().items()} == Fruit.layout()


def test_a_table_has_all_its_columns_and_no_others() -> None:
    for columns in ({"weight": FRUIT.weight}, {**FRUIT.columns(), "taste": FRUIT.weight}):
        with pytest.raises(TypeError, match="Fruit has other columns than weight"):
            Fruit(**columns)


def test_a_table_is_not_changed_but_replaced() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'weight'"):
        FRUIT.weight = FRUIT.weight  # type: ignore[misc]
    assert replace(FRUIT, weight=np.array([1, 2, 3])).weight.tolist() == [1, 2, 3]


def test_rows_are_taken_in_the_order_asked_for() -> None:
    taken = FRUIT.take(np.array([2, 0]))
    assert (taken.weight.tolist(), taken.colour.tolist()) == ([30, 10], [3, 1])


def test_rows_are_taken_by_a_mask() -> None:
    taken = FRUIT.take(FRUIT.weight > 10)
    assert (taken.weight.tolist(), taken.colour.tolist()) == ([20, 30], [2, 3])


def test_a_sound_table_passes_its_check() -> None:
    FRUIT.self_check()
    Fruit.empty().self_check()


@pytest.mark.parametrize(
    ("colour", "message"),
    [
        (np.array([1, 2], np.uint8), r"Fruit.colour has shape \(2,\), not \(3,\)"),
        (np.zeros((3, 1), np.uint8), r"Fruit.colour has shape \(3, 1\), not \(3,\)"),
    ],
)
def test_columns_of_other_shapes_are_found(colour: Column, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        Fruit(weight=FRUIT.weight, colour=colour).self_check()
