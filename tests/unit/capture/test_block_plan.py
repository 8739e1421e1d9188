"""The plan of blocks: pairs of neighbours, in random order, without the steps that pay for a switch."""

from hypothesis import given
from hypothesis import strategies as st

from redline.capture.block_plan import DROPPED, WARM_UP, BlockPlan


@given(
    st.integers(1, 2**30), st.integers(2 * WARM_UP + 1, 500), st.integers(1, 32), st.integers(1, 8), st.integers(0, 60)
)
def test_counted_steps_run_the_way_that_they_are_counted_for(
    seed: int, first: int, kept: int, turns: int, pair: int
) -> None:
    plan = BlockPlan(seed=seed, first=first, kept=kept, turns=turns)
    without, changed = plan.counted(pair)
    assert len(without) == len(changed) == kept * turns
    assert not any(map(plan.is_changed, without))
    assert all(map(plan.is_changed, changed))
    both = sorted([*without, *changed])
    assert both[0] == first + 2 * turns * pair * (kept + DROPPED) + DROPPED
    assert both[-1] == plan.last(pair)


def test_blocks_of_a_pair_take_turns() -> None:
    plan = BlockPlan(seed=1, first=11, kept=2, turns=3)
    ways = [plan.is_changed(11 + block * plan.block) for block in range(6)]
    assert ways in ([False, True] * 3, [True, False] * 3)


def test_before_the_first_pair_both_ways_are_warmed_up() -> None:
    plan = BlockPlan(seed=1, first=2 * WARM_UP + 4, kept=3)
    changed = [plan.is_changed(step) for step in range(1, plan.first)]
    assert changed == [False] * WARM_UP + [True] * WARM_UP + [False] * 3


def test_about_half_of_the_pairs_begin_with_the_change() -> None:
    plan = BlockPlan(seed=5, first=11, kept=2)
    begins = sum(plan.is_changed(plan.last(pair) - 2 * plan.block + 1) for pair in range(1000))
    assert 420 < begins < 580
