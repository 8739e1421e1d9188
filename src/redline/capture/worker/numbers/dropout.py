"""Switches dropout off, whose masks no two implementations share, and tells where and how much of it there would be.

So a dropout that is on in evaluation, has another probability, or another mask when checkpointing computes again, is
still seen, while an implementation with other random numbers is not taken for a mistake.
"""

from __future__ import annotations

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch.nn import Module

_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
OTHER_MASK = 1.0  # is added to the probability


class DropoutSwitch:
    """Tells `told` the probability of each dropout that would be applied; 0 where a module is not training."""

    def __init__(self, told: Callable[[float, bool], None]) -> None:
        self._told = told
        self._restored_in = -1  # the backward pass in which the state of the generator was last put back
        functional: Any = torch.nn.functional
        for name in _DROPOUTS:
            setattr(functional, name, self._without(getattr(functional, name)))
        self._switch_dropout_of_torch()
        self._switch_attention(functional)
        self._watch_generator()

    def _tell(self, probability: float) -> None:
        if torch.compiler.is_compiling():
            return
        backward_pass = torch._C._current_graph_task_id()
        self._told(float(probability), backward_pass not in (-1, self._restored_in))

    def _without(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:  # noqa: A002
            self._tell(p if training else 0.0)
            if training and p and not torch.compiler.is_compiling():
                return input * torch.ones_like(input)  # kept for the backward pass, as a mask is: it is computed again
            return plain(input, p, False, inplace)

        return dropout

    def _switch_dropout_of_torch(self) -> None:
        plain = torch.dropout

        def dropout(input: Any, p: float, train: bool) -> Any:  # noqa: A002 (as torch names it)
            self._tell(p if train else 0.0)
            return plain(input, p, False)

        torch.dropout = dropout

    def _switch_attention(self, functional: Any) -> None:
        plain = functional.scaled_dot_product_attention

        def attention(
            query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *more: Any, **named: Any
        ) -> Any:
            self._tell(dropout_p)
            return plain(query, key, value, attn_mask, 0.0, *more, **named)

        functional.scaled_dot_product_attention = attention

    def _watch_generator(self) -> None:
        """Checkpointing puts it back before it computes again, unless it was told not to."""
        plain = torch.set_rng_state

        def set_rng_state(new_state: Any) -> None:
            self._restored_in = torch._C._current_graph_task_id()
            plain(new_state)

        torch.set_rng_state = torch.random.set_rng_state = set_rng_state


def without_dropout(root: Module) -> None:
    """Recurrent modules hand their probability to code in C."""
    for module in root.modules():
        if isinstance(module, torch.nn.RNNBase) and module.dropout:
            module.dropout = 0.0
