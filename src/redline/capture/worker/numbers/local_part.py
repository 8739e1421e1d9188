"""Which part of a tensor this process has: which elements of the whole, and which other processes have the same."""

from __future__ import annotations

from dataclasses import dataclass

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from torch import Tensor


@dataclass(frozen=True)
class LocalPart:
    """What this process has of a tensor."""

    values: Tensor
    shape: tuple[int, ...]  # of the whole
    index: Tensor | None = None  # of its elements in the whole; None where they are all
    copy: str = ""  # parts that belong to one copy of the tensor say the same; "" for a copy of this process alone


def local_part(tensor: Tensor) -> LocalPart | None:
    """None for a kind of tensor whose elements cannot be read."""
    tensor = tensor.detach()
    if hasattr(tensor, "device_mesh") and hasattr(tensor, "placements"):
        return _of_distributed(tensor)
    if hasattr(tensor, "trigger_wait"):  # the result of a collective that may still run
        tensor = tensor.trigger_wait()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return None
    if tensor.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return None
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return LocalPart(tensor, tuple(tensor.shape))


def _of_distributed(tensor: Any) -> LocalPart | None:
    """Of a DTensor: a shard, one of several summands, or a copy."""
    mesh, coordinate = tensor.device_mesh, tensor.device_mesh.get_coordinate()
    local = local_part(tensor._local_tensor)
    if coordinate is None or local is None:
        return None
    values, shape = local.values, tuple(tensor.shape)
    along = [torch.arange(size, device="cpu") for size in shape]
    copy = [f"mesh{int(mesh.mesh.min())}"]
    is_shard = False
    for dimension, placement in enumerate(tensor.placements):
        size, at = mesh.size(dimension), coordinate[dimension]
        if placement.is_partial():
            if placement.reduce_op not in ("sum", "avg"):
                return None
            values = values / size if placement.reduce_op == "avg" else values
        elif placement.is_replicate():
            copy.append(f"{dimension}:{at}")
        else:
            along[placement.dim] = _kept_indices(placement, along[placement.dim], size)[at]
            is_shard = True
    index = _flat_index(along, shape) if is_shard else None
    return LocalPart(values, shape, index, " ".join(copy))


def _kept_indices(placement: Any, indices: Tensor, size: int) -> Sequence[Tensor]:
    """Which indices of one dimension each of `size` processes has; torch itself says how it splits."""
    along_first = (
        type(placement)(0, split_factor=placement.split_factor)
        if hasattr(placement, "split_factor")
        else (type(placement)(0))
    )
    parts: Sequence[Tensor] = along_first._split_tensor(indices, size, with_padding=False)[0]
    return parts


def _flat_index(along: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    index = torch.zeros((), dtype=torch.int64, device="cpu")
    for indices, size in zip(along, shape, strict=True):
        index = index.unsqueeze(-1) * size + indices
    return index.reshape(-1)
