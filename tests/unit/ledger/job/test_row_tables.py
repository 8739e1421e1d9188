"""Tables of all ranks added up in columns: the same rows as adding them up one by one."""

from dataclasses import replace

import pytest

from redline.ledger.job.combine import KernelTable, host_activities_of, kernels_of
from redline.ledger.rank.host_activity import added
from redline.ledger.rank.kernel_table import merged
from tests.support.made_digests import distinct_digests

RANKS = tuple(distinct_digests(3, simulated=8))


def test_rows_are_those_of_adding_one_by_one() -> None:
    ranks = [*RANKS, *RANKS[:2]]
    kernels, activities = kernels_of(ranks), host_activities_of(ranks)
    assert list(map(repr, kernels)) == list(map(repr, merged(row for rank in ranks for row in rank.kernels)))
    assert list(activities) == list(added(row for rank in ranks for row in rank.doing))
    assert len(kernels) == sum(len(rank.kernels) for rank in RANKS)
    assert repr(kernels[-1]) == repr(list(kernels)[-1])
    assert list(map(repr, kernels[2:4])) == list(map(repr, kernels))[2:4]


def test_equal_times_are_in_order_of_their_keys() -> None:
    ranks = [replace(rank, kernels=[replace(row, time_ns=5) for row in rank.kernels]) for rank in RANKS]
    assert [row.key for row in kernels_of(ranks)] == sorted(row.key for rank in ranks for row in rank.kernels)


def test_sums_beyond_63_bits_are_right_too() -> None:
    row = replace(RANKS[0].kernels[0], flops=2**62)
    ranks = [replace(RANKS[0], kernels=[row])] * 4
    assert [one.flops for one in kernels_of(ranks)] == [2**64]


def test_there_is_no_row_beyond_the_last() -> None:
    kernels = kernels_of(RANKS)
    assert isinstance(kernels, KernelTable)
    with pytest.raises(IndexError):
        kernels[len(kernels)]
