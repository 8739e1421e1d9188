"""RL-H11: torch.compile compiles again while the job is running."""

import pytest

from tests.support.events import document, op
from tests.support.rules.host import later_step, two_kernels
from tests.support.rules.matching import claimed_ns, matched, step


@pytest.mark.parametrize("name", ["_compile.compile_inner (dynamo_timed)", "entire_backward_compile"])
def test_h11_claims_the_idle_time_that_compiling_causes(name: str) -> None:
    assert claimed_ns(document(later_step(op(name, 1100, 500))), "RL-H11") == 500_000


def test_h11_leaves_the_first_step_alone() -> None:
    assert "RL-H11" not in matched(
        document([*two_kernels(103, 700, op("entire_frame_compile", 100, 500)), step(1, 1000, 500)])
    )


def test_h11_counts_the_first_step_where_later_ones_compile_too() -> None:
    """The first step is idle from 800 to 853 us, and compiles for 30 us of that."""
    first, second = op("entire_frame_compile", 810, 30), op("entire_frame_compile", 1100, 500)
    alone = claimed_ns(document(later_step(second)), "RL-H11")
    assert claimed_ns(document([first, *later_step(second)]), "RL-H11") == alone + 30_000


def test_h11_leaves_compiled_code_alone() -> None:
    assert "RL-H11" not in matched(document(later_step(op("Torch-Compiled Region: 0/0", 1100, 500))))
