"""Attention whose scores go through memory."""

from typing import Any

import pytest

from tests.support.events import document, op
from tests.support.rules.kernels import MASK, PV, QK, SOFTMAX
from tests.support.rules.matching import BF16, calls, claimed_ns, described, found, machine, matched

# RL-C07: attention as two products with a softmax between them, so that all scores go through memory.


SLOW = machine(bf16=1)


def test_c07_claims_all_beyond_what_fused_attention_needs() -> None:
    data = document(calls(QK, MASK, SOFTMAX, PV))
    # 4 * 4 heads * 128**2 pairs * 64 / 2 FLOPs at 1 TFLOP/s
    assert claimed_ns(data, "RL-C07", SLOW) == 400_000 - 8_389
    first, second = found(data, machine=SLOW)["RL-C07"].evidence
    assert first.values == {"attentions": 1, "attention_ns": 400_000, "attention_share": 0.4}
    assert second.values == {"scores": "128 x 128"}


def test_c07_claims_all_on_an_unknown_device_and_says_so() -> None:
    data = document(calls(QK, SOFTMAX, PV))
    assert claimed_ns(data, "RL-C07") == 300_000
    assert "the bound is all of that time" in found(data)["RL-C07"].evidence[-1].message


def test_c07_knows_scores_that_are_added_to_what_may_be_a_mask() -> None:
    added = ("aten::baddbmm", described(BF16, [4, 128, 128], [4, 128, 64], [4, 64, 128], [], []))
    data = document(calls(added, SOFTMAX, PV))
    assert claimed_ns(data, "RL-C07") == 300_000
    assert matched(data)["RL-C07"].figures["masked"] == 1


def test_c07_knows_the_backward_pass() -> None:
    backward = (
        ("aten::bmm", described(BF16, [4, 128, 64], [4, 64, 128])),  # gradient of the weights
        ("aten::bmm", described(BF16, [4, 128, 128], [4, 128, 64])),  # of the values
        ("aten::_softmax_backward_data", described(BF16, [1, 4, 128, 128], [1, 4, 128, 128], [], [])),
        ("aten::bmm", described(BF16, [4, 128, 128], [4, 128, 64])),  # of the queries
        ("aten::bmm", described(BF16, [4, 64, 128], [4, 128, 128])),  # of the keys
    )
    assert claimed_ns(document(calls(*backward)), "RL-C07", SLOW) == 500_000 - 20_972


def test_c07_knows_the_math_backend_without_shapes() -> None:
    events = calls(("aten::bmm", {}), ("aten::_softmax", {}), ("aten::bmm", {}))
    events.append(op("aten::_scaled_dot_product_attention_math", 0, 40))
    assert claimed_ns(document(events), "RL-C07") == 300_000


@pytest.mark.parametrize(
    "names_and_args",
    [
        pytest.param((QK, PV), id="no softmax"),
        pytest.param((QK, ("aten::_softmax", described(BF16, [1, 4, 128, 64], [], [])), PV), id="softmax of another"),
        pytest.param((QK, SOFTMAX, ("aten::bmm", described(BF16, [4, 64, 64], [4, 64, 64]))), id="read by no product"),
        pytest.param((SOFTMAX, PV), id="made by no product"),
        pytest.param((QK, SOFTMAX), id="nothing after it"),
        pytest.param((("aten::bmm", {}), ("aten::_softmax", {}), ("aten::bmm", {})), id="shapes not recorded"),
    ],
)
def test_c07_is_silent_where_it_is_no_attention(names_and_args: tuple[tuple[str, dict[str, Any]], ...]) -> None:
    assert "RL-C07" not in matched(document(calls(*names_and_args)), SLOW)


def test_c07_leaves_a_small_share_alone() -> None:
    assert "RL-C07" not in matched(document(calls(QK, SOFTMAX, PV, us=30)), SLOW)
