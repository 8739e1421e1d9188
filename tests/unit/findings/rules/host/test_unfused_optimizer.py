"""RL-H07: the optimizer updates one parameter after the other, with kernels of its own for each."""

import pytest

from tests.support.events import Event, document, op, region
from tests.support.rules.host import optimizer, updates
from tests.support.rules.matching import claimed_ns, found, matched, step


def test_h07_claims_the_kernels_of_the_optimizer_and_the_idle_time_it_causes() -> None:
    data = document(optimizer("SGD", *updates("vectorized_elementwise_kernel", 40)))
    # 3 us before its first kernel, 7 us between two, 127 us after the last
    assert claimed_ns(data, "RL-H07") == 40 * 5_000 + 3_000 + 39 * 7_000 + 127_000
    assert found(data)["RL-H07"].evidence[0].values["optimizer"] == "SGD.step"


def on_cpu(*names: str) -> bytes:
    """A step of 1000 us of a CPU, with an optimizer from 100 to 600 us that runs these operators."""
    operators = [op(name, 110 + 10 * number, 5) for number, name in enumerate(names)]
    return document([step(0, 0, 1000), op("aten::mm", 0, 80), region("Optimizer.step#SGD.step", 100, 500), *operators])


def test_h07_claims_all_of_the_optimizer_on_a_cpu() -> None:
    data = on_cpu(*["aten::add_"] * 40)
    assert claimed_ns(data, "RL-H07") == 500_000
    assert found(data)["RL-H07"].evidence[0].values["operators"] == 40


def test_h07_leaves_a_fused_optimizer_on_a_cpu_alone() -> None:
    assert "RL-H07" not in matched(on_cpu("aten::_fused_sgd_", *["aten::add_"] * 39))


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(updates("multi_tensor_apply_kernel<TensorListMetadata<2>>", 40), id="lists of tensors"),
        pytest.param(updates("vectorized_elementwise_kernel", 39), id="few kernels"),
    ],
)
def test_h07_leaves_other_optimizers_alone(events: list[Event]) -> None:
    assert "RL-H07" not in matched(document(optimizer("SGD", *events)))
