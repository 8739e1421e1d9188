"""The blocks of a module: the kind of submodule that repeats, as people wrap it for FSDP or recompute it."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

# Two halves of a model are no blocks.
LEAST = 4
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def blocks_of(module: nn.Module) -> list[nn.Module]:
    """Of the kinds that occur several times, the one with the most parameters. Those of a block inside a larger one
    count for the larger.
    """
    kinds: dict[type[nn.Module], list[nn.Module]] = defaultdict(list)
    for submodule in module.modules():
        if not isinstance(submodule, CONTAINERS):
            kinds[type(submodule)].append(submodule)
    several = [alike for alike in kinds.values() if len(alike) >= LEAST]
    several.sort(key=lambda blocks: _parameters(blocks, set()) / len(blocks), reverse=True)
    taken: set[int] = set()
    counted = [(_parameters(blocks, taken), blocks) for blocks in several]
    most, blocks = max(counted, key=lambda pair: pair[0], default=(0, []))
    return blocks if most else []


def _parameters(blocks: list[nn.Module], taken: set[int]) -> int:
    """Of all together, without those that are taken; now these are taken as well."""
    own = {
        id(parameter): parameter.numel()
        for block in blocks
        for parameter in block.parameters()
        if id(parameter) not in taken
    }
    taken.update(own)
    return sum(own.values())


class Blocks:
    """While it is entered, it notes what goes into each block, and how much more is kept after it than before."""

    def __init__(self, module: nn.Module, kept_so_far: Callable[[], int]) -> None:
        self.found = blocks_of(module)
        self.inputs_bytes = self.kept_bytes = self.largest_bytes = 0
        self._kept_so_far = kept_so_far
        self._before: list[int] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> Self:
        for block in self.found:
            self._hooks += [block.register_forward_pre_hook(self._begin, with_kwargs=True)]
            self._hooks += [block.register_forward_hook(self._end)]
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _begin(self, _: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        tensors = [leaf for leaf in tree_leaves((arguments, named)) if isinstance(leaf, torch.Tensor)]
        self.inputs_bytes += sum(tensor.nbytes for tensor in tensors)
        self._before.append(self._kept_so_far())

    def _end(self, *_: object) -> None:
        added = self._kept_so_far() - self._before.pop()
        self.kept_bytes += 0 if self._before else added  # a block inside another is part of that
        self.largest_bytes = max(self.largest_bytes, added)
