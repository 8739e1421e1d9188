"""Clocks of ranks are brought together by collectives, also where some of these look wild; where not, it is said."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.job.clocks import TRUSTED_RESIDUAL_NS, Clocks, align
from redline.job.collectives import Matched
from redline.verbs.inspect import inspect
from tests.support.traces.jobspec import JobSpec, ParallelSizes
from tests.support.traces.synthetic import write_job

Observed = tuple[int, int, int]  # operation, rank, end


def aligned(observed: list[Observed], ranks: int) -> Clocks:
    rows = sorted(observed)
    ends = np.array([end for _, _, end in rows], np.int64)
    table = Matched(
        operation=np.array([operation for operation, _, _ in rows], np.int64),
        rank=np.array([rank for _, rank, _ in rows], np.int32),
        place=np.zeros(len(rows), np.int32),
        start_ns=ends - 10,
        end_ns=ends,
    )
    return align(table, ranks)


def job(offsets: list[int], operations: int = 40, noise_ns: int = 0, seed: int = 0) -> list[Observed]:
    """All ranks in all operations, their clocks off by so much."""
    dice = random.Random(seed)
    return [
        (number, rank, 1_000_000 * number + offset + dice.randint(-noise_ns, noise_ns))
        for number in range(operations)
        for rank, offset in enumerate(offsets)
    ]


def relative(offsets: list[int]) -> tuple[int, ...]:
    return tuple(offset - offsets[0] for offset in offsets)


@given(st.lists(st.integers(-(10**15), 10**15), min_size=2, max_size=8))
def test_offsets_without_noise_are_exact(offsets: list[int]) -> None:
    clocks = aligned(job(offsets, operations=5), len(offsets))
    assert clocks.offset_ns == relative(offsets)
    assert (clocks.residual_ns, clocks.worst_ns, clocks.operations) == ((0,) * len(offsets), 0, 5)
    assert clocks.alone == ()


@given(st.lists(st.integers(-(10**12), 10**12), min_size=2, max_size=8), st.integers(0, 2**32))
def test_offsets_with_noise_are_as_good_as_the_noise(offsets: list[int], seed: int) -> None:
    clocks = aligned(job(offsets, noise_ns=2_000, seed=seed), len(offsets))
    for found, true in zip(clocks.offset_ns, relative(offsets), strict=True):
        assert abs(found - true) <= 2_000
    assert clocks.trusted
    assert clocks.worst_ns <= 8_000


def test_unix_times_of_today_lose_nothing() -> None:
    now = 1_790_857_026_000_000_000
    assert aligned(job([now, now + 3]), 2).offset_ns == (0, 3)


def test_wild_observations_do_not_move_the_clocks() -> None:
    offsets = [0, 50_000_000, -7_000, 123_456]
    observed = job(offsets, operations=100, noise_ns=500)
    dice = random.Random(1)
    wild = set(dice.sample(range(len(observed)), len(observed) // 5))
    observed = [
        (number, rank, end + dice.randint(10**6, 10**9) if place in wild else end)
        for place, (number, rank, end) in enumerate(observed)
    ]
    clocks = aligned(observed, len(offsets))
    for found, true in zip(clocks.offset_ns, offsets, strict=True):
        assert abs(found - true) < 1_500
    assert clocks.trusted
    assert clocks.worst_ns > 10**6


def test_clocks_are_carried_along_a_chain_of_groups() -> None:
    offsets = [0, 10**9, -(10**9), 5, 77_000]
    observed = [
        (10 * link + number, rank, 1_000 * (10 * link + number) + offsets[rank])
        for link in range(4)
        for number in range(10)
        for rank in (link, link + 1)
    ]
    clocks = aligned(observed, 5)
    assert (clocks.offset_ns, clocks.alone, clocks.worst_ns) == (tuple(offsets), (), 0)


def test_ranks_that_share_nothing_are_named() -> None:
    clocks = aligned([(0, 1, 100), (0, 2, 105), (1, 1, 200), (1, 2, 205)], 4)
    assert clocks.alone == (0, 3)
    assert (clocks.offset_ns, clocks.residual_ns) == ((0, 0, 5, 0), (0, 0, 0, 0))


def test_of_two_circles_one_is_aligned_and_the_other_named() -> None:
    observed = [(number, rank, 100 * number + 7 * rank) for number in range(5) for rank in (0, 1)]
    observed += [(number, rank, 100 * number + 50 * rank) for number in range(10, 13) for rank in (2, 3)]
    clocks = aligned(observed, 4)
    assert (clocks.alone, clocks.offset_ns) == ((2, 3), (0, 7, 0, 0))


def test_the_fit_is_of_the_aligned_ranks_only() -> None:
    observed = [(number, rank, 100 * number) for number in range(5) for rank in (0, 1)]
    observed += [(number, rank, 100 * number + 50_000_000 * (rank == 3)) for number in range(10, 13) for rank in (2, 3)]
    clocks = aligned(observed, 4)
    assert clocks.alone == (2, 3)
    assert (clocks.worst_ns, clocks.operations) == (0, 5)


@pytest.mark.parametrize("ranks", [0, 1, 3])
def test_nothing_to_align_on(ranks: int) -> None:
    clocks = aligned([], ranks)
    assert (clocks.offset_ns, clocks.operations, clocks.worst_ns) == ((0,) * ranks, 0, 0)
    assert clocks.alone == (tuple(range(ranks)) if ranks > 1 else ())
    assert clocks.trusted


def test_ends_that_do_not_fit_are_not_trusted() -> None:
    """Operations matched wrongly: their distances differ from one to the next by many milliseconds."""
    dice = random.Random(3)
    observed = [(number, rank, 10**6 * number + dice.randint(0, 40_000_000)) for number in range(50) for rank in (0, 1)]
    clocks = aligned(observed, 2)
    assert max(clocks.residual_ns) > TRUSTED_RESIDUAL_NS
    assert not clocks.trusted


@pytest.mark.parametrize(("residual", "trusted"), [(TRUSTED_RESIDUAL_NS, True), (TRUSTED_RESIDUAL_NS + 1, False)])
def test_where_trust_ends(residual: int, trusted: bool) -> None:
    clocks = Clocks(offset_ns=(0, 0), residual_ns=(0, residual), worst_ns=residual, operations=5, alone=())
    assert clocks.trusted is trusted


# --- jobs with known truth --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec(ranks=4, steps=2, layers=2, clock_offsets_us=(0.0, 50_000.0, -1_234.567, 9e6)),
        JobSpec(
            ranks=4,
            steps=2,
            layers=2,
            layout=ParallelSizes(dp=2, tp=2),
            clock_offsets_us=(0.0, 777.0, -50_000.0, 3.5),
        ),
        JobSpec(
            ranks=2,
            steps=3,
            layers=2,
            collectives="all_gather_reduce_scatter",
            collective_metadata=False,
            clock_offsets_us=(0.0, -250_000.0),
        ),
    ],
    ids=["data parallel", "groups of two axes", "without descriptions"],
)
def test_offsets_of_a_synthetic_job_are_found_to_5_us(tmp_path: Path, spec: JobSpec) -> None:
    truth = write_job(spec, tmp_path, compress=False)
    found = inspect([tmp_path])
    assert [rank.rank for rank in found.ranks] == list(range(spec.ranks))
    true = [rank.clock_offset_ns for rank in truth.ranks]
    for offset, expected in zip(found.clocks.offset_ns, relative(true), strict=True):
        assert abs(offset - expected) <= 5_000
    assert found.clocks.trusted
    assert found.clocks.alone == ()
