"""RL-N24: the all-to-alls of sharded embeddings are not hidden behind computation."""

from tests.support.events import Event
from tests.support.rules.communication import alike, base, exchanged, values
from tests.support.rules.matching import found


def embedding(*, forward: int = 3, backward: int = 1) -> list[Event]:
    """So many all-to-alls of 40 us each after the compute, launched in the forward and in the backward pass."""
    launched = [100.0] * forward + [400.0] * backward
    events = base()
    for number, at in enumerate(launched):
        events += exchanged(600 + 40 * number, 40, 2 + number, at=at, name="all_to_allv", elements=1 << 20)
    return events


def test_n24_claims_exposed_exchanges_of_embeddings() -> None:
    finding = found(*alike(embedding()))["RL-N24"]
    assert (finding.alone_ns, finding.bound_ns) == (160_000, 160_000)
    assert values(finding) == {"exchanges": 4, "exposed_ns": 160_000, "step_ns": 1_000_000}


def test_n24_leaves_experts_to_n17() -> None:
    findings = found(*alike(embedding(forward=2, backward=2)))
    assert "RL-N24" not in findings
    assert findings["RL-N17"].alone_ns == 160_000


def test_n24_is_silent_below_a_twentieth_of_the_step() -> None:
    assert "RL-N24" not in found(*alike(embedding(forward=1, backward=0)))
