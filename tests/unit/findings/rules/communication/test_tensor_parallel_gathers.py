"""RL-N23: tensor parallelism gathers the whole output of each layer, and the next layer splits it again."""

import pytest

from tests.support.events import Event
from tests.support.rules.communication import alike, base, exchanged, values
from tests.support.rules.matching import found


def gathering(count: int = 4, *, elements: int = 8192, more: list[Event] | None = None) -> list[Event]:
    """So many all-gathers of 20 us each in the forward pass, and one all-reduce of 40 us in the backward pass."""
    gathers = [
        exchanged(620 + 20 * number, 20, 2 + number, at=70, elements=elements, name="_allgather_base")
        for number in range(count)
    ]
    reduced = exchanged(720, 40, 50, at=350, elements=elements)
    return [*base(), *(event for events in gathers for event in events), *reduced, *(more or [])]


def test_n23_claims_gathers_and_gains_alone_what_is_reduced_too() -> None:
    finding = found(*alike(gathering()))["RL-N23"]
    assert values(finding) == {"gathers": 4, "exposed_ns": 80_000, "step_ns": 1_000_000}
    assert (finding.bound_ns, finding.alone_ns) == (80_000, 120_000)


@pytest.mark.parametrize(
    "events",
    [
        gathering(3),
        gathering(elements=512),
        gathering(more=exchanged(770, 20, 60, at=80, elements=8192, name="_reduce_scatter_base")),
        gathering(more=exchanged(770, 20, 60, at=360, elements=8192, name="_allgather_base")),
    ],
    ids=["few", "small", "sequence parallel", "parameters"],
)
def test_n23_is_silent_about_other_gathers(events: list[Event]) -> None:
    assert "RL-N23" not in found(*alike(events))
