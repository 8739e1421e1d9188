"""RL-H08: the optimizer works on lists of tensors but reads a counter of every parameter in Python."""

import pytest

from tests.support.events import Event, document, op
from tests.support.rules.host import optimizer
from tests.support.rules.matching import claimed_ns, found, launched, matched


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
