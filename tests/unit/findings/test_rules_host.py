"""Rules about the host, the data loader and the allocator: each fires on its trace and not on its counter-trace."""

from tests.conftest import Event, document, region
from tests.unit.findings.conftest import claimed_ns, found, launched, observed, step

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


# --- RL-D01: loading in the training process --------------------------------------------------------------------------


def loading_for(us: float) -> list[Event]:
    """A step of 1000 us that begins in the data loader and then runs one kernel of 500 us."""
    return [step(0, 0, 1000), region(LOADER, 0, us), *launched("gemm", us + 2, 500, 1, at=us)]


def test_d01_claims_the_time_in_the_loader() -> None:
    data = document(loading_for(100))
    assert claimed_ns(data, "RL-D01") == 100_000
    assert observed(data)["RL-D01"].accounts == {"input": 100_000}
    assert found(data)["RL-D01"].share == 0.1


def test_d01_leaves_a_short_wait_alone() -> None:
    assert "RL-D01" not in found(document(loading_for(25)))
