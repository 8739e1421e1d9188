"""RL-C10: convolutions want their tensors in another memory layout, so every one is converted there and back."""

import pytest

from tests.support.events import document, kernel, launch
from tests.support.rules.matching import claimed_ns, found, matched, step

CUDNN = "void cudnn::ops::nchwToNhwcKernel<float>"


def converting(us: float, name: str = CUDNN) -> bytes:
    return document(
        [
            step(0, 0, 1000),
            launch(0, 1),
            kernel(name, 10, us, correlation=1),
            launch(5, 2),
            kernel("implicit_convolve", 10 + us, 500, correlation=2),
        ]
    )


@pytest.mark.parametrize("name", [CUDNN, "batched_transpose_16x32_half"])
def test_c10_claims_conversions_of_cudnn_and_miopen(name: str) -> None:
    assert claimed_ns(converting(50, name), "RL-C10") == 50_000


def test_c10_claims_all_conversions() -> None:
    (evidence,) = found(converting(50))["RL-C10"].evidence
    assert evidence.values == {"conversions": 1, "converting_share": pytest.approx(50 / 550)}


def test_c10_leaves_few_conversions_alone() -> None:
    assert "RL-C10" not in matched(converting(15))  # 2.9 % of the kernel time
