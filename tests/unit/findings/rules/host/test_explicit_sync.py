"""RL-H04: the program waits for the whole device on purpose."""

import pytest

from tests.support.events import Event, document, op
from tests.support.rules.host import call, two_kernels
from tests.support.rules.matching import claimed_ns, found, matched

SYNC = call("cudaDeviceSynchronize", 10, 410)


def test_h04_claims_the_idle_time_after_a_synchronisation() -> None:
    data = document(two_kernels(403, 500, SYNC))
    assert claimed_ns(data, "RL-H04") == 100_000
    assert found(data)["RL-H04"].evidence[0].values["call"] == "cudaDeviceSynchronize"


@pytest.mark.parametrize(
    "between",
    [
        pytest.param([op("c10d::barrier", 5, 420), SYNC], id="inside an operator"),
        pytest.param([call("cudaEventSynchronize", 10, 410)], id="of an event"),
        pytest.param([call("cudaDeviceSynchronize", 700, 200)], id="after the last launch"),
    ],
)
def test_h04_leaves_other_synchronisations_alone(between: list[Event]) -> None:
    assert "RL-H04" not in matched(document(two_kernels(403, 500, *between)))
