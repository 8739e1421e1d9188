"""RL-H19: the thread that launches does long work of another kind, and the device waits."""

import pytest

from tests.conftest import Event, document, region
from tests.unit.findings.conftest import claimed_ns, found, launched, matched, step
from tests.unit.findings.rules.conftest import call, later
from tests.unit.findings.rules.host.conftest import small_kernels


def pausing_for(us: float, *inside: Event) -> list[Event]:
    """20 small kernels, the last of which ends at 578 us, then a launch at 600 us plus the pause."""
    return [
        step(0, 0, 12_000),
        *small_kernels(20, 0, 10),
        *inside,
        *launched("gemm", 603 + us, 100, 9, at=600 + us),
    ]


def test_h19_claims_long_pauses_between_launches() -> None:
    data = document(pausing_for(10_000, region("postprocess", 590, 9_900)))
    assert claimed_ns(data, "RL-H19") == 10_022_000  # from the end of the last kernel to the next launch
    assert found(data)["RL-H19"].evidence[-1].values == {"place": "postprocess"}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(pausing_for(4_900), id="short"),
        pytest.param(pausing_for(10_000, call("cudaFree", 580, 10_015)), id="in a call of the driver"),
    ],
)
def test_h19_leaves_other_pauses_alone(events: list[Event]) -> None:
    assert "RL-H19" not in found(document(events))


def test_h19_claims_what_the_first_step_has_as_all_have_it() -> None:
    mark, *events = pausing_for(10_000)
    data = document([mark, *events, step(1, 12_000, 11_000), *(later(event, 12_000) for event in events)])
    assert claimed_ns(data, "RL-H19") == 2 * 10_022_000


def test_h19_leaves_a_first_step_alone_that_warms_up() -> None:
    assert "RL-H19" not in matched(document([*pausing_for(10_000), step(1, 12_000, 1000)]))
