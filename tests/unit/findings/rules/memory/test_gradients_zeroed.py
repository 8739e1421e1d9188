"""RL-B07: fires where zeros are written and added to, and leaves dropped gradients and accumulation alone."""

from tests.support.events import Event, document, op, region
from tests.support.rules.matching import claimed_ns, found, matched, step

NODE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def added(ts: float) -> list[Event]:
    """A node of 30 us that adds to a gradient."""
    return [op(NODE, ts, 30), op("aten::add_", ts + 5, 20)]


def trained(*events: Event) -> bytes:
    return document(
        [
            step(0, 0, 1000),
            op("aten::linear", 0, 100, **{"Sequence number": 1, "Fwd thread id": 0}),
            region("Optimizer.zero_grad#SGD.zero_grad", 100, 50),
            op("autograd::engine::evaluate_function: AddmmBackward0", 300, 100),
            *events,
        ]
    )


ZEROED = op("aten::_foreach_zero_", 105, 40)


def test_b07_claims_zeroing_what_it_pushes_out_and_adding() -> None:
    data = trained(ZEROED, *added(400), *added(440))
    assert claimed_ns(data, "RL-B07") == 40_000 + 40_000 + 2 * 30_000
    values = found(data)["RL-B07"].evidence[0].values
    assert (values["zeroing_ns"], values["adding_ns"], values["gradients"]) == (40_000, 60_000, 2)


def test_b07_leaves_later_passes_to_accumulation() -> None:
    second = [
        op("aten::linear", 500, 100, **{"Sequence number": 2, "Fwd thread id": 0}),
        op("autograd::engine::evaluate_function: AddmmBackward0", 600, 50),
        *added(650),
    ]
    assert claimed_ns(trained(ZEROED, *added(400), *second), "RL-B07") == 40_000 + 40_000 + 30_000


def test_b07_leaves_gradients_that_are_dropped_alone() -> None:
    assert "RL-B07" not in matched(trained(op(NODE, 400, 30), op("aten::detach", 405, 20)))


def test_b07_leaves_accumulation_without_zeroing_alone() -> None:
    assert "RL-B07" not in matched(trained(*added(400)))
