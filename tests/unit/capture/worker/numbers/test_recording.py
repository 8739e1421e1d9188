"""Sketches: linear, exact enough to tell an error of 1e-7, and the sum of those of the parts."""

import math
from collections.abc import Callable

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor
from torch.distributed.tensor.placement_types import Shard, _StridedShard

from redline.capture.worker.numbers.recording import (
    PartialSketch,
    _flat_index,
    _kept_indices,
    add_to_sketch,
    tensors_in,
)


def sketched(tensor: Tensor, index: Tensor | None = None, offset: int = 0) -> Tensor:
    sketch = PartialSketch.empty()
    add_to_sketch(sketch, tensor, index, offset)
    return torch.tensor(sketch.numbers(), dtype=torch.float64)


def everywhere(shape: tuple[int, int]) -> Tensor:
    return torch.randn(shape)


def one_column(shape: tuple[int, int]) -> Tensor:
    error = torch.zeros(shape)
    error[:, 7] = torch.randn(shape[0])
    return error


def one_row(shape: tuple[int, int]) -> Tensor:
    error = torch.zeros(shape)
    error[3] = torch.randn(shape[1])
    return error


def same_sign(shape: tuple[int, int]) -> Tensor:
    return torch.ones(shape)


@pytest.mark.parametrize("shape", [(700, 300), (256, 1024), (513, 511)])
@pytest.mark.parametrize("error", [everywhere, one_column, one_row, same_sign])
def test_an_error_of_a_ten_millionth_is_estimated_within_a_fifth(
    shape: tuple[int, int], error: Callable[[tuple[int, int]], Tensor]
) -> None:
    torch.manual_seed(1)
    before = torch.randn(shape).to(torch.float64)
    wrong = error(shape).to(torch.float64)
    after = before + wrong * (1e-7 * before.norm() / wrong.norm())
    estimated = (sketched(after) - sketched(before)).norm() / before.norm()
    assert 0.8e-7 < float(estimated) < 1.2e-7
    assert before.float().norm() == after.float().norm()  # which is why norms do not do


def test_a_small_tensor_is_kept_whole() -> None:
    values = torch.randn(11, 23)
    assert sketched(values)[: values.numel()].tolist() == values.double().flatten().tolist()


def test_a_sketch_is_linear() -> None:
    a, b = torch.randn(5000, dtype=torch.float64), torch.randn(5000, dtype=torch.float64)
    torch.testing.assert_close(sketched(a + 3 * b), sketched(a) + 3 * sketched(b), rtol=0, atol=1e-10)


def test_chunks_do_not_show() -> None:
    values = torch.randn(200_000, dtype=torch.float64)
    parts = sketched(values[:70_001]) + sketched(values[70_001:], offset=70_001)
    torch.testing.assert_close(parts, sketched(values), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("size", [2, 3, 8])
def test_sketches_of_shards_add_up_to_that_of_the_whole(dim: int, size: int) -> None:
    whole = torch.randn(50, 37, dtype=torch.float64)
    along = [torch.arange(50), torch.arange(37)]
    total = torch.zeros(256, dtype=torch.float64)
    shards, _ = Shard(dim)._split_tensor(whole, size, with_padding=False)
    for at, shard in enumerate(shards):
        own = list(along)
        own[dim] = _kept_indices(Shard(dim), along[dim], size)[at]
        total += sketched(shard, _flat_index(own, whole.shape))
    torch.testing.assert_close(total, sketched(whole), rtol=0, atol=1e-10)


def test_shards_of_fsdp_and_tensor_parallelism_on_one_dimension_add_up() -> None:
    whole = torch.randn(64, 9, dtype=torch.float64)
    total = torch.zeros(256, dtype=torch.float64)
    outer = _StridedShard(0, split_factor=2)
    for sharded, indices in zip(
        outer._split_tensor(whole, 2, with_padding=False)[0], _kept_indices(outer, torch.arange(64), 2), strict=True
    ):
        for at in range(2):
            shard = Shard(0)._split_tensor(sharded, 2, with_padding=False)[0][at]
            own = [_kept_indices(Shard(0), indices, 2)[at], torch.arange(9)]
            total += sketched(shard, _flat_index(own, whole.shape))
    torch.testing.assert_close(total, sketched(whole), rtol=0, atol=1e-10)


def test_numbers_that_are_not_finite_are_counted_and_left_out() -> None:
    sketch = PartialSketch.empty()
    add_to_sketch(sketch, torch.tensor([1.0, math.inf, math.nan, 2.0]), None, 0)
    assert (sketch.non_finite, sketch.square_sum, sketch.numbers()[:4]) == (2, 5.0, [1.0, 0.0, 0.0, 2.0])


def test_the_hash_is_that_of_the_bits() -> None:
    values = torch.randn(1000)
    moved = values.clone()
    moved[500] = torch.nextafter(moved[500], torch.tensor(math.inf))
    hashes = [add_to_sketch(PartialSketch.empty(), tensor, None, 0) for tensor in (values, values.clone(), moved)]
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]


def test_tensors_are_found_in_what_modules_return() -> None:
    one = torch.ones(1)
    output = {"logits": one, "past": ((one, one), [one]), "ids": torch.ones(1, dtype=torch.int64), "name": "x"}
    assert [where for where, _ in tensors_in(output)] == [".logits", ".past[0][0]", ".past[0][1]", ".past[1][0]"]
