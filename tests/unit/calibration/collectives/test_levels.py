"""Which ranks form groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.calibration.collectives.collective_law import level_of, levels, sizes


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([0, 0], {"world": ((0, 1),)}),
        ([0, 0, 0], {"world": ((0, 1, 2),)}),
        ([0] * 4, {"world": ((0, 1, 2, 3),), "pair": ((0, 1), (2, 3))}),
        ([0] * 6, {"world": ((0, 1, 2, 3, 4, 5),), "half": ((0, 1, 2), (3, 4, 5)), "pair": ((0, 1), (2, 3), (4, 5))}),
        ([0] * 5, {"world": ((0, 1, 2, 3, 4),), "pair": ((0, 1), (2, 3))}),
        ([0, 1, 2], {"world": ((0, 1, 2),)}),
        ([0, 0, 1, 1], {"world": ((0, 1, 2, 3),), "node": ((0, 1), (2, 3)), "across": ((0, 2), (1, 3))}),
        ([1, 1, 0, 0], {"world": ((0, 1, 2, 3),), "node": ((2, 3), (0, 1)), "across": ((2, 0), (3, 1))}),
        ([0, 0, 0, 1, 1], {"world": ((0, 1, 2, 3, 4),), "across": ((0, 3), (1, 4))}),
    ],
)
def test_groups(nodes: list[int], expected: dict[str, object]) -> None:
    assert levels(nodes) == expected


@given(st.lists(st.integers(0, 5), min_size=2, max_size=40))
def test_no_rank_is_in_two_groups_of_a_level_and_all_are_of_one_size(nodes: list[int]) -> None:
    for groups in levels(nodes).values():
        ranks = [rank for group in groups for rank in group]
        assert len(ranks) == len(set(ranks))
        assert set(ranks) <= set(range(len(nodes)))
        assert len({len(group) for group in groups}) == 1
        assert min(map(len, groups)) >= 2


def test_the_level_of_a_pair() -> None:
    assert [level_of(0, other, [0, 0, 1]) for other in (1, 2)] == ["node", "across"]


def test_sizes_go_up_to_the_most() -> None:
    assert sizes(1024, step=4) == [4, 16, 64, 256, 1024]
    assert sizes(1000, step=16) == [4, 64]
