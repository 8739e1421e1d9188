"""The blocks that a model repeats, such as the layers of a transformer or the stages of a convolutional net."""

from __future__ import annotations

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def repeated_blocks(root: torch.nn.Module) -> list[torch.nn.Module]:
    """Modules of one class, each with parts of its own, at least twice in an outermost list; of all such lists."""
    return list(dict.fromkeys(_blocks(root)))


def _blocks(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    children = list(module.children())
    alike = _alike(children) if isinstance(module, torch.nn.ModuleList | torch.nn.Sequential) else []
    yield from alike
    for child in children:
        if not any(child is block for block in alike):
            yield from _blocks(child)


def _alike(children: list[torch.nn.Module]) -> list[torch.nn.Module]:
    kinds = [type(child) for child in children]
    return [child for child in children if kinds.count(type(child)) > 1 and any(True for _ in child.children())]
