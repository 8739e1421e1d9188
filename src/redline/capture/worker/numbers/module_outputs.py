"""Records what modules return and how much they drop out; without an optimizer, their calls are the steps."""

from __future__ import annotations

import torch

from redline.capture.number_check import ACTIVATION, CALLS_PER_STEP, DROPOUT, INPUT, START
from redline.capture.worker.counting.calls import is_optimizer_made
from redline.capture.worker.numbers import repeatable
from redline.capture.worker.numbers.module_names import NamedCalls, OpenCall, wrap_calls
from redline.capture.worker.numbers.recording import tensors_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch.nn import Module

    from redline.capture.worker.numbers.module_names import ModuleNames
    from redline.capture.worker.numbers.recording import NumbersState
    from redline.capture.worker.numbers.repeatable import Perturbation

_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
OTHER_MASK = 1.0  # is added to the probability


class ModuleOutputs:
    """Records calls outside of the backward pass, in which checkpointing calls modules once more."""

    def __init__(
        self,
        state: NumbersState,
        names: ModuleNames,
        calls: NamedCalls,
        perturbation: Perturbation | None,
        finish: Callable[[], None],
    ) -> None:
        self._state = state
        self._names = names
        self._calls = calls
        self._perturbation = perturbation
        self._finish = finish
        self._full_precision = repeatable.FullPrecision() if state.check.fp32 else None
        self._called: set[str] = set()  # outermost modules in this step, where no optimizer steps
        self._begun: dict[int, Module] = {}  # outermost modules that were called, kept for their ids
        DropoutSwitch(self._dropout_met)
        wrap_calls(self._begin, self._returned, calls.end)

    def _begin(self, module: Module, args: tuple[Any, ...]) -> OpenCall | None:
        if not self._state.goes_on() or torch._C._get_tracing_state() is not None:
            return None
        call: OpenCall | None = None
        with self._state.guarded():
            call = self._calls.begin(module)
            if call.is_outermost:
                self._outermost_begins(call)
                self._add_tokens(call, args)
        return call

    def _outermost_begins(self, call: OpenCall) -> None:
        without_dropout(call.module)
        repeatable.use_random_numbers_of_eager(call.module)
        if self._full_precision is not None:
            self._full_precision.keep()
        if not self._state.by_optimizer and call.name in self._called:
            self._next_step()
        self._called.add(call.name)
        if id(call.module) not in self._begun:
            self._begun[id(call.module)] = call.module
            for name, buffer in self._names.buffers():
                if not self._state.has(START, name, step=0):
                    self._state.recording.add(0, START, name, buffer)

    def _add_tokens(self, call: OpenCall, args: tuple[Any, ...]) -> None:
        """The last of those that a model is asked to continue, with or without a cache of the others."""
        is_integer = bool(args) and isinstance(args[0], torch.Tensor) and args[0].dtype is torch.int64
        if is_integer and args[0].dim() == 2 and not torch.is_grad_enabled():
            self._state.add(INPUT, call.name, args[0][:, -1].to(torch.float64))

    def _next_step(self) -> None:
        """A module is called again."""
        if is_optimizer_made():  # this is training, and its first step has not ended
            return
        self._called.clear()
        self._state.step += 1
        if self._state.step >= CALLS_PER_STEP * self._state.check.steps:
            self._finish()

    def _returned(self, call: OpenCall, output: Any) -> Any:
        if self._perturbation is not None and call.is_leaf:
            output = self._perturbation.of_output(call.module, output)
        if torch._C._current_graph_task_id() == -1:
            with self._state.guarded():
                self._add_output(call, output)
        return output

    def _add_output(self, call: OpenCall, output: Any) -> None:
        self._state.lowered |= repeatable.is_precision_lowered()
        name = self._calls.numbered_name(call)
        if name is None:
            return
        for where, tensor in tensors_in(output):
            self._state.add(ACTIVATION, name + where, tensor)
            if not torch.is_grad_enabled() and tensor.dim() > 2 and not hasattr(tensor, "placements"):
                # With a cache, only the last position is computed.
                self._state.add(ACTIVATION, f"{name}{where} at the last position", tensor[:, -1])

    def _dropout_met(self, probability: float, is_other_mask: bool) -> None:
        """A dropout would be applied in the module that is being called."""
        in_backward = torch._C._current_graph_task_id() != -1
        name = self._calls.current()
        if not self._state.goes_on() or name is None or (in_backward and not (is_other_mask and probability)):
            return
        with self._state.guarded():
            value = torch.tensor([probability + (OTHER_MASK if in_backward else 0.0)], device="cpu")
            self._state.add(DROPOUT, name, value, summed=True)


# So a dropout that is on in evaluation, has another probability, or another mask when checkpointing computes again, is
# still seen, while an implementation with other random numbers is not taken for a mistake.
class DropoutSwitch:
    """Switches dropout off, whose masks no two implementations share, and tells where how much of it there would be.

    Tells `told` the probability of each dropout that would be applied; 0 where a module is not training.
    """

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
