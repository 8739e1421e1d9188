"""Has the numbers of a process of the job recorded from now on, with the seed and perturbation that were asked for."""

from __future__ import annotations

import atexit
import os
import sys
import time
from dataclasses import asdict

import torch
from torch.amp.grad_scaler import GradScaler

from redline.capture.number_check import FILE_ENDING, LOSS, START, NumberCheck
from redline.capture.worker.file_guard import FileGuard
from redline.capture.worker.numbers.module_names import ModuleNames, NamedCalls
from redline.capture.worker.numbers.module_outputs import ModuleOutputs
from redline.capture.worker.numbers.optimizer_numbers import OptimizerNumbers
from redline.capture.worker.numbers.recording import NumbersState
from redline.capture.worker.numbers.repeatable import Perturbation, seed_everything
from redline.capture.worker.process_context import process_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torch import Tensor

    from redline.capture.worker.process_context import ProcessContext

_MOST_FILES = 10  # that are told
_OTHERS_S = 20.0  # that a rank waits for the files of the others before it ends


def record_numbers(context: ProcessContext) -> None:
    """To be called when torch has been imported, and nothing of the script has run with it."""
    check = NumberCheck(**context.settings.numbers)
    state, names = NumbersState(context, check), ModuleNames()
    calls, end = NamedCalls(names), NumbersEnd(state)
    perturbation = Perturbation(check) if check.eps else None
    seed_everything(check.seed)
    if perturbation is not None:
        torch.compiler.set_stance("force_eager")  # in compiled code there are no modules to perturb
    ModuleOutputs(state, names, calls, perturbation, end.finish)
    LossNumbers(state, perturbation)
    OptimizerNumbers(state, names, calls, end.finish)
    atexit.register(end.script_ended)


class LossNumbers:
    """Records the losses from which backward passes begin, without what a gradient scaler multiplies them by."""

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


class NumbersEnd:
    """Writes the numbers of a process to its file, when enough steps are done or the script ends, and ends it."""

    def __init__(self, state: NumbersState) -> None:
        self._state = state

    def script_ended(self) -> None:
        """Where it has computed nothing, others that it started may have."""
        is_other = not self._state.recording.tensors and os.path.exists(self._path(_rank()))  # noqa: PTH110
        if self._state.goes_on() and not is_other:
            with self._state.guarded():
                self._write()

    def finish(self) -> None:
        """All steps that were asked for are done: the script does nothing more, neither evaluate nor save."""
        self._write()
        self._wait_for_others()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(0)

    def _write(self) -> None:
        state = self._state
        state.is_over = True
        for path in FileGuard.here.written_elsewhere()[:_MOST_FILES] if FileGuard.here else ():
            state.recording.notes[f"the script wrote to {path}, outside of the folder for its output"] = None
        steps = max((step for step, kind, _ in state.recording.tensors if kind != START), default=-1) + 1
        facts = {
            "world": _world(),
            "steps": steps,
            "by_optimizer": state.by_optimizer,
            "lowered": state.lowered,
            "failure": state.failure,
            "check": {**asdict(state.check), "folder": ""},
            "torch": torch.__version__,
        }
        state.recording.write(state.check.folder, _rank(), facts)

    def _wait_for_others(self) -> None:
        """A rank that ends while another still receives what it sent would fail that one."""
        until_s = time.monotonic() + _OTHERS_S
        names = [self._path(rank) for rank in range(_world())]
        while time.monotonic() < until_s and not all(map(os.path.exists, names)):
            time.sleep(0.01)

    def _path(self, rank: int) -> str:
        return f"{self._state.check.folder}/rank-{rank}{FILE_ENDING}"


def _rank() -> int:
    distributed = process_group()
    return int(os.environ.get("RANK", "0") if distributed is None else distributed.get_rank())


def _world() -> int:
    distributed = process_group()
    return int(os.environ.get("WORLD_SIZE", "1") if distributed is None else distributed.get_world_size())
