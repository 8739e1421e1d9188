"""Which file is which rank of a job, in order; ranks that are claimed twice, and ranks that are missing."""

import subprocess
import sys
from collections import Counter

from hypothesis import given as for_all
from hypothesis import strategies as st

from redline.job.rank_order import Claim, RankOrder, rank_order
from redline.trace.rank_claim import FROM_FILE_NAME, FROM_METADATA, FROM_ORDER, FROM_PROCESS_NAME


def ordered(claims: list[tuple[int, str]], world_size: int) -> RankOrder:
    return rank_order([Claim(rank=rank, origin=origin, world_size=world_size) for rank, origin in claims])


def given(order: RankOrder) -> tuple[int, ...]:
    """The rank that each claim was given, in the order of the claims."""
    return tuple(place.rank for place in sorted(order.places, key=lambda place: place.index))


def origins(order: RankOrder) -> tuple[str, ...]:
    return tuple(place.origin for place in sorted(order.places, key=lambda place: place.index))


def test_stated_ranks_are_kept_in_any_order() -> None:
    job = ordered([(2, FROM_METADATA), (0, FROM_METADATA), (1, FROM_PROCESS_NAME)], world_size=3)
    assert (given(job), job.doubles, job.missing) == ((2, 0, 1), (), ())
    assert origins(job) == (FROM_METADATA, FROM_METADATA, FROM_PROCESS_NAME)
    assert [(place.rank, place.index) for place in job.places] == [(0, 1), (1, 2), (2, 0)]


def test_ranks_without_a_trace_are_missing() -> None:
    assert ordered([(0, FROM_METADATA), (3, FROM_METADATA)], world_size=5).missing == (1, 2, 4)


def test_two_traces_that_state_one_rank_are_doubles() -> None:
    job = ordered([(1, FROM_METADATA), (1, FROM_METADATA), (0, FROM_METADATA)], world_size=2)
    assert (given(job), job.doubles) == ((1, 1, 0), (1,))


def test_nothing_known_is_numbered_in_order() -> None:
    job = ordered([(-1, FROM_ORDER)] * 3, world_size=0)
    assert (given(job), origins(job), job.doubles, job.missing) == ((0, 1, 2), (FROM_ORDER,) * 3, (), ())


def test_free_numbers_are_those_that_nobody_states() -> None:
    job = ordered([(-1, FROM_ORDER), (0, FROM_METADATA), (-1, FROM_ORDER), (2, FROM_METADATA)], world_size=4)
    assert (given(job), job.doubles, job.missing) == ((1, 0, 3, 2), (), ())


def test_of_two_that_infer_one_rank_the_second_gets_a_free_one() -> None:
    job = ordered([(1, FROM_FILE_NAME), (1, FROM_FILE_NAME), (2, FROM_FILE_NAME)], world_size=0)
    assert given(job)[0] == 1
    assert given(job)[2] == 2
    assert job.doubles == ()
    assert sorted(given(job)) == [0, 1, 2]
    assert origins(job) == (FROM_FILE_NAME, FROM_ORDER, FROM_FILE_NAME)


def test_an_inferred_rank_gives_way_to_a_stated_one() -> None:
    job = ordered([(0, FROM_FILE_NAME), (0, FROM_METADATA)], world_size=2)
    assert (given(job), job.doubles) == ((1, 0), ())


def test_an_inferred_rank_is_not_lost_to_an_unknown_one_before_it() -> None:
    job = ordered([(-1, FROM_ORDER), (0, FROM_FILE_NAME), (-1, FROM_ORDER)], world_size=0)
    assert (given(job), origins(job)) == ((1, 0, 2), (FROM_ORDER, FROM_FILE_NAME, FROM_ORDER))


CLAIMS = st.tuples(st.integers(-1, 6), st.sampled_from([FROM_METADATA, FROM_FILE_NAME]))


@for_all(st.lists(CLAIMS, min_size=1, max_size=9), st.data())
def test_only_the_order_of_claims_that_are_alike_matters(claims: list[tuple[int, str]], data: st.DataObject) -> None:
    """Digests of known ranks are named by them, and come before the others: that must change no rank."""
    times = Counter(rank for rank, _ in claims)
    named = [number for number, (rank, _) in enumerate(claims) if rank >= 0 and times[rank] == 1]
    moved = [*data.draw(st.permutations(named)), *(number for number in range(len(claims)) if number not in named)]
    before, after = given(ordered(claims, 9)), given(ordered([claims[number] for number in moved], 9))
    assert after == tuple(before[number] for number in moved)


def test_an_absurd_world_size_does_not_fill_the_memory() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (800 << 20, 800 << 20));"
        "from redline.job.rank_order import Claim, rank_order; from redline.trace.rank_claim import FROM_METADATA;"
        "rank_order([Claim(rank=0, origin=FROM_METADATA, world_size=10**12)] * 2)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
