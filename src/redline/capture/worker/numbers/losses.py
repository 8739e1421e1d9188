"""Records the losses from which backward passes begin, without what a gradient scaler multiplies them by."""

from __future__ import annotations

import torch
from torch.amp.grad_scaler import GradScaler

from redline.capture.number_check import LOSS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torch import Tensor

    from redline.capture.worker.numbers.numbers_state import NumbersState
    from redline.capture.worker.numbers.perturbation import Perturbation


class LossNumbers:
    """The sum of all of a step."""

    def __init__(self, state: NumbersState, perturbation: Perturbation | None) -> None:
        self._state = state
        self._perturbation = perturbation
        self._unscaled: dict[int, Tensor] = {}  # losses, by the id of what a scaler made of them
        self._watch_backward()
        self._watch_scalers()

    def _watch_backward(self) -> None:
        plain = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if not torch.compiler.is_compiling():
                with self._state.guarded():
                    self._add(tensors, *args, **kwargs)
            plain(tensors, *args, **kwargs)

        torch.autograd.backward = backward

    def _watch_scalers(self) -> None:
        plain = GradScaler.scale

        def scale(scaler: GradScaler, outputs: Any) -> Any:
            scaled = plain(scaler, outputs)
            if isinstance(scaled, torch.Tensor) and scaled is not outputs:
                self._unscaled = {id(scaled): outputs}
            return scaled

        GradScaler.scale = scale  # type: ignore[method-assign, assignment]

    def _add(self, tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        gradients = [grad_tensors] if isinstance(grad_tensors, torch.Tensor) else list(grad_tensors or ())
        if not self._state.goes_on() or torch._C._current_graph_task_id() != -1:
            return
        factor = 1.0 if self._perturbation is None else self._perturbation.of_loss()
        for number, root in enumerate(roots):
            value = self._unscaled.pop(id(root), root).detach()
            gradient = gradients[number] if number < len(gradients) else None
            if gradient is not None:
                value = (value.to(torch.float32) * gradient).sum()
            elif value.dim():
                value = value.sum()
            self._state.add(LOSS, "loss", value, factor=factor, summed=True)
