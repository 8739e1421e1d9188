"""RL-N30: ranks wait in collectives for ranks that have no core."""

from typing import Any

import pytest

from tests.support.events import document
from tests.support.rules.communication import late
from tests.support.rules.host_record import counters, evidence, training
from tests.support.rules.matching import found

STEPS = 3


def job(*, waited: float) -> list[bytes]:
    """Two ranks; rank 1 comes 300 us late in each step of 1000 us, and waited for a core for so long in each."""
    return [_rank(0, 0), _rank(1, waited)]


def _rank(rank: int, waited: float) -> bytes:
    borders = [(1000 * number, 1000 * (number + 1)) for number in range(STEPS)]
    parts: dict[str, Any] = {
        "steps": counters(*borders, cpu=[1000 - waited] * STEPS, waited=[waited] * STEPS),
        "threads": [training((1000 - waited) * STEPS, waited * STEPS)],
        "machine": {"cores_allowed": 8, "cores": 8, "running": 20.0, "ranks": 2},
    }
    return document(late(rank, after_us=(300,) * STEPS), rank=rank, world_size=2, **evidence(**parts))


def test_n30_claims_waiting_for_a_rank_without_a_core() -> None:
    every = found(*job(waited=300))
    assert every["RL-H20"].ranks == 1
    assert every["RL-N30"].accounts["peer wait"] == pytest.approx(150_000, rel=0.02)  # 300 us on one of two ranks
    assert every["RL-N13"].bound_ns == pytest.approx(0, abs=1)


def test_n30_claims_no_more_than_the_rank_waited_for_a_core() -> None:
    every = found(*job(waited=150))
    assert every["RL-N30"].accounts["peer wait"] == pytest.approx(75_000, rel=0.02)
    assert every["RL-N13"].bound_ns == pytest.approx(150_000, rel=0.02)  # on the job, not on its average rank


def test_n30_is_silent_where_no_rank_is_starved() -> None:
    every = found(*job(waited=20))
    assert "RL-N30" not in every
    assert every["RL-N13"].bound_ns == 300_000
