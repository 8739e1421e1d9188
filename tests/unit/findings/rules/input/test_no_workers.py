"""RL-D01: batches are loaded in the training process itself."""

import pytest

from tests.support.events import document, region
from tests.support.rules.input import ALONE, WORKERS, loading_for
from tests.support.rules.matching import claimed_ns, found, launched, matched, step


@pytest.mark.parametrize(("loader", "code", "other"), [(ALONE, "RL-D01", "RL-D02"), (WORKERS, "RL-D02", "RL-D01")])
def test_d01_d02_claim_the_time_in_the_loader(loader: str, code: str, other: str) -> None:
    data = document(loading_for(100, loader))
    assert claimed_ns(data, code) == 100_000
    assert matched(data)[code].accounts == {"input": 100_000}
    assert found(data)[code].share == 0.1
    assert other not in matched(data)


@pytest.mark.parametrize(("loader", "code"), [(ALONE, "RL-D01"), (WORKERS, "RL-D02")])
def test_d01_d02_leave_a_short_wait_alone(loader: str, code: str) -> None:
    assert code not in found(document(loading_for(25, loader)))


def test_d01_claims_what_the_device_is_idle_where_it_mostly_computes_on() -> None:
    """It waits for 100 us of the 400 only."""
    first = launched("gemm", 2, 300, 1, at=0)
    events = [step(0, 0, 1000), *first, region(ALONE, 1, 400), *launched("gemm", 402, 500, 2, at=401)]
    assert claimed_ns(document(events), "RL-D01") == 100_000
