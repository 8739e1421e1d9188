"""Optimizers and averages of weights that work on one parameter after the other in Python."""

import pytest

from tests.support.events import Event, document, op, region
from tests.support.rules.host import optimizer, updates
from tests.support.rules.matching import claimed_ns, found, launched, matched, step

# RL-H07: the optimizer updates one parameter after the other, with kernels of its own for each.


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


# RL-H08: the optimizer works on lists of tensors but reads a counter of every parameter in Python.


def adam(reads: int, operator: str) -> list[Event]:
    """An optimizer that reads so many numbers of the host, then launches one kernel at 420 us."""
    items = [op("aten::item", 110 + 10 * index, 4) for index in range(reads)]
    return optimizer("Adam", *items, op(operator, 400, 40), *launched("multi_tensor_apply", 423, 10, 10, at=420))


def test_h08_claims_what_the_optimizer_takes_of_the_host() -> None:
    data = document(adam(20, "aten::_foreach_add_"))
    # the kernel, and 500 us of idle time: as long as the host was in the optimizer
    assert claimed_ns(data, "RL-H08") == 10_000 + 500_000
    assert found(data)["RL-H08"].evidence[0].values["reads"] == 20
    assert "RL-H03" not in matched(data)


@pytest.mark.parametrize(("reads", "operator"), [(19, "aten::_foreach_add_"), (20, "aten::_fused_adam_")])
def test_h08_leaves_other_optimizers_alone(reads: int, operator: str) -> None:
    assert "RL-H08" not in matched(document(adam(reads, operator)))


NODE = "autograd::engine::evaluate_function: MulBackward0"


def test_h08_claims_nothing_of_a_closure() -> None:
    """Lightning hands the optimizer a closure, so that forward and backward pass run inside of its step."""
    after = adam(20, "aten::_foreach_add_")
    closure = [op("aten::mul", 101, 1), op(NODE, 103, 5)]
    assert claimed_ns(document([*after, *closure]), "RL-H08") == 10_000 + 500_000 - 8_000
    reads_in_closure = [op("aten::mul", 101, 1), op(NODE, 395, 3)]
    assert "RL-H08" not in matched(document([*after, *reads_in_closure]))


# RL-H26: fires on loops over parameters outside of optimizers, and leaves logs, clipping and evaluations alone.


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
