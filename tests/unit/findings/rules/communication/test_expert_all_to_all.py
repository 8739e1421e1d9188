"""RL-N17: the exchange of tokens between experts is not hidden behind computation."""

from collections.abc import Sequence

from tests.support.events import Event, document
from tests.support.rules.communication import alike, alone_ns, base, exchanged, values
from tests.support.rules.matching import found, launched


def test_n17_claims_exposed_dispatch_and_combine() -> None:
    events = [
        *base(),
        *launched("void deep_ep::intranode::dispatch<8>(int)", 550, 100, 2, at=450),
        *launched("void deep_ep::intranode::combine<8>(int)", 700, 30, 3, at=460),
    ]
    finding = found(document(events, world_size=8))["RL-N17"]
    assert finding.alone_ns == 80_000
    known = values(finding)
    assert (known["exchanges"], known["window_exposed_ns"], known["window_ns"]) == (2, 80_000, 130_000)
    assert known["untold_share"] == 1.0


def routed(forward_at: Sequence[float], backward_at: Sequence[float]) -> list[Event]:
    """All-to-alls of 20 us from 600 us on, launched in these passes."""
    times = enumerate((*forward_at, *backward_at))
    return [*base(), *(e for i, at in times for e in exchanged(600 + 20 * i, 20, 2 + i, at=at, name="all_to_all"))]


def test_n17_takes_all_to_alls_of_both_passes_for_experts() -> None:
    assert alone_ns(alike(routed((70, 80), (350, 360))), "RL-N17") == 80_000


def test_n17_takes_embeddings_of_a_recommender_for_no_experts() -> None:
    assert "RL-N17" not in found(*alike(routed((70, 80, 90, 100), (350,))))


def test_n17_is_silent_where_the_exchange_is_hidden() -> None:
    events = [*base(), *launched("void deep_ep::intranode::dispatch<8>(int)", 400, 205, 2, at=350)]
    assert "RL-N17" not in found(document(events, world_size=8))
