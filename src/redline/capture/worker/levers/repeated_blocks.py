"""The blocks that a model repeats, such as the layers of a transformer or the stages of a convolutional net."""

from __future__ import annotations

from dataclasses import dataclass

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class BlockList:
    """A list of modules in which blocks are repeated."""

    path: str  # attributes that lead to it from the root, as `named_modules` spells them
    container: torch.nn.Module
    blocks: tuple[torch.nn.Module, ...]


def repeated_blocks(root: torch.nn.Module) -> list[torch.nn.Module]:
    """Modules of one class, each with parts of its own, at least twice in an outermost list; of all such lists."""
    return list(dict.fromkeys(block for known in block_lists(root) for block in known.blocks))


def block_lists(root: torch.nn.Module) -> list[BlockList]:
    """Outermost lists that repeat blocks."""
    return list(_lists(root, ""))


def _lists(module: torch.nn.Module, path: str) -> Iterator[BlockList]:
    children = dict(module.named_children())
    is_list = isinstance(module, torch.nn.ModuleList | torch.nn.Sequential)
    alike = _alike(list(children.values())) if is_list else []
    if alike:
        yield BlockList(path, module, tuple(alike))
    for name, child in children.items():
        if not any(child is block for block in alike):
            yield from _lists(child, f"{path}.{name}" if path else name)


def _alike(children: list[torch.nn.Module]) -> list[torch.nn.Module]:
    kinds = [type(child) for child in children]
    return [child for child in children if kinds.count(type(child)) > 1 and any(True for _ in child.children())]
