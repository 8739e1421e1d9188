"""RL-N21: a step exchanges many numbers one by one, and waits for each of them."""

import pytest

from tests.support.events import Event
from tests.support.rules.communication import alike, base, exchanged, values
from tests.support.rules.matching import found


def metrics(count: int, *, elements: int = 1, at: float = 40, name: str = "allreduce") -> list[Event]:
    """So many collectives of 20 us each, launched before the forward pass."""
    exchanges = [
        exchanged(620 + 20 * number, 20, 2 + number, at=at, elements=elements, name=name) for number in range(count)
    ]
    return [*base(), *(event for events in exchanges for event in events)]


def test_n21_claims_what_small_collectives_expose() -> None:
    finding = found(*alike(metrics(5)))["RL-N21"]
    assert finding.alone_ns == 100_000
    assert (values(finding)["exchanges"], values(finding)["collective"]) == (5, "all_reduce")


def test_n21_counts_broadcasts_that_are_more_than_buffers() -> None:
    finding = found(*alike(metrics(8, name="broadcast")))["RL-N21"]
    assert (values(finding)["exchanges"], values(finding)["collective"]) == (8, "broadcast")


def test_n21_gains_alone_what_is_between_them_too() -> None:
    exchanges = [exchanged(620 + 30 * number, 20, 2 + number, at=40, elements=1) for number in range(5)]
    finding = found(*alike([*base(), *(event for events in exchanges for event in events)]))["RL-N21"]
    assert finding.bound_ns == 100_000
    assert finding.alone_ns == 100_000 + 4 * 10_000


@pytest.mark.parametrize(
    "events",
    [metrics(2), metrics(5, elements=1024), metrics(5, at=400), metrics(5, name="broadcast")],
    ids=["few", "large", "in the backward pass", "buffers"],
)
def test_n21_is_silent_otherwise(events: list[Event]) -> None:
    assert "RL-N21" not in found(*alike(events))
