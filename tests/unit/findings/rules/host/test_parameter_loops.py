"""RL-H26: fires on loops over parameters outside of optimizers, and leaves logs, clipping and evaluations alone."""

import pytest

from tests.support.events import Event, document, op, region
from tests.support.rules.matching import claimed_ns, found, matched, step

PARAMETERS = 20
BACKWARD = "autograd::engine::evaluate_function: {}"


def trained(*after: Event, optimizer: bool = True) -> bytes:
    """A step of 2000 us of a CPU; its backward pass ends at 400 us, its optimizer at 500 us."""
    nodes = [op(BACKWARD.format("torch::autograd::AccumulateGrad"), 300 + 5 * n, 5) for n in range(PARAMETERS)]
    return document(
        [
            step(0, 0, 2000),
            op("aten::linear", 0, 200, **{"Sequence number": 1, "Fwd thread id": 0}),
            op(BACKWARD.format("AddmmBackward0"), 200, 100, **{"Sequence number": 1, "Fwd thread id": 1}),
            *nodes,
            *([region("Optimizer.step#SGD.step", 400, 100), op("aten::_fused_sgd_", 410, 80)] if optimizer else []),
            *after,
        ]
    )


def loop(*names: str, start: float = 500) -> list[Event]:
    """The operators for each parameter, one every 10 us."""
    return [op(name, start + 10 * number, 5) for number, name in enumerate(names * PARAMETERS)]


def test_h26_claims_an_average_of_the_weights() -> None:
    data = trained(*loop("aten::mul", "aten::mul", "aten::add"))
    assert claimed_ns(data, "RL-H26") == 595_000  # from the optimizer's end to that of the last of 60 operators
    evidence = found(data)["RL-H26"].evidence[0]
    assert evidence.message.startswith("Outside the optimizer")
    assert (evidence.values["parameters"], evidence.values["operators"]) == (20, 60)


def test_h26_claims_an_optimizer_that_is_written_by_hand() -> None:
    data = trained(*loop("aten::item", "aten::mul", "aten::add", "aten::copy_", start=400), optimizer=False)
    assert claimed_ns(data, "RL-H26") == 795_000
    assert found(data)["RL-H26"].evidence[0].message.startswith("The script updates")


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(loop("aten::linalg_vector_norm", "aten::mul_"), id="clipping"),
        pytest.param(loop("aten::mul", "aten::add", "aten::sqrt", "aten::item"), id="a log that reads every parameter"),
        pytest.param([op("aten::_foreach_lerp_", 500, 900)], id="lists of tensors"),
        pytest.param(loop("aten::linear", "aten::add", "aten::mul", "aten::div"), id="an evaluation"),
    ],
)
def test_h26_leaves_other_work_alone(after: list[Event]) -> None:
    assert "RL-H26" not in matched(trained(*after))


def test_h26_needs_a_backward_pass() -> None:
    assert "RL-H26" not in matched(document([step(0, 0, 2000), *loop("aten::mul", "aten::mul", "aten::add")]))
