"""What collectives are by definition, against definitions written down in another way: on lists, rank by rank."""

from collections.abc import Callable

import pytest
from hypothesis import given as supposing
from hypothesis import strategies as st

from redline.calibration.collectives.collective_law import OPERATIONS, due, given, lengths, size_bytes

Lists = list[list[float]]


def contents(operation: str, ranks: int, size: int) -> Lists:
    return [given(operation, rank, ranks, size).tolist() for rank in range(ranks)]


def joined(lists: Lists) -> list[float]:
    return [number for numbers in lists for number in numbers]


def sums(lists: Lists) -> list[float]:
    return [sum(column) for column in zip(*lists, strict=True)]


def parts(numbers: list[float], ranks: int) -> Lists:
    length = len(numbers) // ranks
    return [numbers[rank * length : (rank + 1) * length] for rank in range(ranks)]


DEFINITIONS: dict[str, Callable[[Lists, int, int], list[float] | None]] = {
    "broadcast": lambda had, _rank, _ranks: had[0],
    "reduce": lambda had, rank, _ranks: sums(had) if rank == 0 else None,
    "all_reduce": lambda had, _rank, _ranks: sums(had),
    "gather": lambda had, rank, _ranks: joined(had) if rank == 0 else [],
    "all_gather": lambda had, _rank, _ranks: joined(had),
    "scatter": lambda had, rank, ranks: parts(had[0], ranks)[rank],
    "reduce_scatter": lambda had, rank, ranks: parts(sums(had), ranks)[rank],
    "all_to_all": lambda had, rank, ranks: joined([parts(one, ranks)[rank] for one in had]),
    "send_recv": lambda had, rank, ranks: had[(rank + ranks - 1) % ranks],
    "barrier": lambda _had, _rank, _ranks: [],
}


@supposing(st.sampled_from(sorted(OPERATIONS)), st.integers(2, 9), st.integers(1, 40_000), st.data())
def test_what_is_due_is_what_the_operation_is_defined_to_do(
    operation: str, ranks: int, about: int, data: st.DataObject
) -> None:
    size = size_bytes(operation, ranks, about)
    rank = data.draw(st.integers(0, ranks - 1))
    expected = DEFINITIONS[operation](contents(operation, ranks, size), rank, ranks)
    found = due(operation, rank, ranks, size)
    assert (None if found is None else found.tolist()) == expected


@supposing(st.sampled_from(sorted(set(OPERATIONS) - {"barrier"})), st.integers(2, 64), st.integers(0, 1 << 20))
def test_the_size_is_the_larger_of_what_a_rank_gives_and_gets(operation: str, ranks: int, about: int) -> None:
    size = size_bytes(operation, ranks, about)
    buffers = [lengths(operation, rank, ranks, size) for rank in range(ranks)]
    assert size == 4 * max(map(max, buffers))
    assert about <= size < max(about, 1) + 4 * ranks


def test_numbers_that_are_shown_are_easy_to_follow() -> None:
    assert given("all_reduce", 2, 3, 16).tolist() == [20, 21, 22, 23]


def test_a_barrier_has_no_size() -> None:
    assert size_bytes("barrier", 4, 1 << 20) == 0
    assert lengths("barrier", 0, 4, 0) == (0, 0)


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"barrier", "broadcast", "scatter", "gather"}))
def test_a_result_that_forgets_a_rank_is_told_from_the_right_one(operation: str) -> None:
    right, wrong = due(operation, 0, 3, 24), given(operation, 0, 3, 24)
    assert right is not None
    assert right.tolist() != wrong.tolist()


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("all_reduce", 1.5),
        ("gather", 0.75),
        ("all_gather", 0.75),
        ("scatter", 0.75),
        ("reduce_scatter", 0.75),
        ("all_to_all", 0.75),
        ("send_recv", 1.0),
    ],
)
def test_bus_bandwidth_of_four_ranks_is_as_in_nccl_tests(operation: str, factor: float) -> None:
    assert OPERATIONS[operation].bus_factor(4) == factor
