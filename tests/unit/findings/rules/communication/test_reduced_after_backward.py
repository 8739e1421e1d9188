"""RL-N22: gradients are all-reduced after the backward pass, when no compute is left to hide it."""

from tests.support.events import Event
from tests.support.rules.communication import alike, base, exchanged, forward, values
from tests.support.rules.matching import found

GRADIENTS = 64 * 1024  # elements of 4 bytes


def reduced(at: float, elements: int = GRADIENTS) -> list[Event]:
    """One all-reduce of 100 us that the host launches at `at`; the backward pass ends at 500 us."""
    return [*base(), *exchanged(700, 100, 2, at=at, elements=elements)]


def test_n22_claims_all_reduces_between_the_backward_pass_and_the_optimizer() -> None:
    # An operator after the backward pass says that it is over: autograd itself flushes gradients before.
    events = [*reduced(650), forward(600, 10)]
    finding = found(*alike(events))["RL-N22"]
    assert finding.alone_ns == 100_000
    assert values(finding)["exchanges"] == 1
    assert values(finding)["payload_bytes"] == 4 * GRADIENTS


def test_n22_knows_autograd_by_its_thread() -> None:
    """What another thread than that of the nodes launches after them, autograd has not flushed."""
    events = reduced(650)
    launched = [event for event in events if event.get("args", {}).get("correlation") == 2 and event["ts"] == 650]
    assert "RL-N22" not in found(*alike(events))
    (launch,) = launched
    launch["tid"] = 1
    assert found(*alike(events))["RL-N22"].alone_ns == 100_000


def test_n22_is_silent_where_gradients_are_reduced_in_the_backward_pass() -> None:
    assert "RL-N22" not in found(*alike(reduced(450)))


def test_n22_is_silent_about_a_norm_of_gradients() -> None:
    events = [*reduced(650, elements=1), forward(600, 10)]
    assert "RL-N22" not in found(*alike(events))
