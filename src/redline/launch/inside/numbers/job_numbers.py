"""Records the numbers of a process of the job step by step, writes them to its file, and ends the process."""

from __future__ import annotations

import atexit
import os
import sys
import time
from contextlib import contextmanager

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from redline.launch.inside.counting.calls import is_optimizer_made
from redline.launch.inside.exception_origin import pass_on
from redline.launch.inside.numbers import repeatable
from redline.launch.inside.numbers.clipping import watch_clipping
from redline.launch.inside.numbers.dropout import OTHER_MASK, DropoutSwitch, without_dropout
from redline.launch.inside.numbers.module_calls import NamedCalls, OpenCall, wrap_calls
from redline.launch.inside.numbers.module_names import ModuleNames
from redline.launch.inside.numbers.perturbation import Perturbation
from redline.launch.inside.numbers.recording import NumbersRecording
from redline.launch.inside.numbers.sketch import tensors_in
from redline.launch.inside.numbers.written_files import WrittenFiles
from redline.launch.number_check import (
    ACTIVATION,
    CALLS_PER_STEP,
    DROPOUT,
    FILE_ENDING,
    GRADIENT,
    INPUT,
    LOSS,
    MOVEMENT,
    START,
    UNCLIPPED,
    NumberCheck,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from torch import Tensor
    from torch.nn import Module

    from redline.launch.inside.process_context import ProcessContext

_MOST_FILES = 10  # that are told
_OTHERS_S = 20.0  # that a rank waits for the files of the others before it ends


class JobNumbers:
    """Made when torch has been imported, and nothing of the script has run with it."""

    def __init__(self, context: ProcessContext) -> None:
        self._context = context
        self._check = check = NumberCheck.from_settings(context.settings.numbers)
        self._names = ModuleNames()
        self._calls = NamedCalls(self._names)
        self._recording = NumbersRecording()
        self._perturbation = Perturbation(check) if check.eps else None
        self._step = 0
        self._first_optimizer: Optimizer | None = None  # whose steps are the steps
        self._called: set[str] = set()  # outermost modules in this step, where no optimizer steps
        self._unscaled: dict[int, Tensor] = {}  # losses, by the id of what a scaler made of them
        self._begun: dict[int, Module] = {}  # outermost modules that were called, kept for their ids
        self._lowered = False
        self._failure = ""
        self._is_over = False
        repeatable.seed_everything(check.seed)
        DropoutSwitch(self._dropout_met)
        self._full_precision = repeatable.FullPrecision() if check.fp32 else None
        if self._perturbation is not None:
            torch.compiler.set_stance("force_eager")  # in compiled code there are no modules to perturb
        wrap_calls(self._begin, self._returned, self._calls.end)
        self._watch_backward()
        self._watch_optimizers()
        self._watch_scalers()
        watch_clipping(self._about_to_clip)
        self._written_files = WrittenFiles(lambda: not self._is_over and context.is_here())
        atexit.register(self._script_ended)

    # --- calls of modules ---

    def _begin(self, module: Module, args: tuple[Any, ...]) -> OpenCall | None:
        if self._is_over or not self._context.is_here() or torch._C._get_tracing_state() is not None:
            return None
        call: OpenCall | None = None
        with self._guarded():
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
        if self._first_optimizer is None and call.name in self._called:
            self._next_step_of_calls()
        self._called.add(call.name)
        if id(call.module) not in self._begun:
            self._begun[id(call.module)] = call.module
            for name, buffer in self._names.buffers():
                if (0, START, name) not in self._recording.tensors:
                    self._recording.add(0, START, name, buffer)

    def _add_tokens(self, call: OpenCall, args: tuple[Any, ...]) -> None:
        """The last of those that a model is asked to continue, with or without a cache of the others."""
        is_integer = bool(args) and isinstance(args[0], torch.Tensor) and args[0].dtype is torch.int64
        if is_integer and args[0].dim() == 2 and not torch.is_grad_enabled():
            self._recording.add(self._step, INPUT, call.name, args[0][:, -1].to(torch.float64))

    def _next_step_of_calls(self) -> None:
        """Without an optimizer, a step ends when a module is called again."""
        if is_optimizer_made():  # this is training, and its first step has not ended
            return
        self._called.clear()
        self._step += 1
        if self._step >= CALLS_PER_STEP * self._check.steps:
            self._finish()

    def _returned(self, call: OpenCall, output: Any) -> Any:
        in_backward = torch._C._current_graph_task_id() != -1  # checkpointing calls modules once more
        if self._perturbation is not None and call.is_leaf:
            output = self._perturbation.of_output(call.module, output)
        if not in_backward:
            with self._guarded():
                self._add_output(call, output)
        return output

    def _add_output(self, call: OpenCall, output: Any) -> None:
        self._lowered |= repeatable.is_precision_lowered()
        name = self._calls.numbered_name(call)
        if name is None:
            return
        for where, tensor in tensors_in(output):
            self._recording.add(self._step, ACTIVATION, name + where, tensor)
            if not torch.is_grad_enabled() and tensor.dim() > 2 and not hasattr(tensor, "placements"):
                # With a cache, only the last position is computed.
                self._recording.add(self._step, ACTIVATION, f"{name}{where} at the last position", tensor[:, -1])

    def _dropout_met(self, probability: float, is_other_mask: bool) -> None:
        """A dropout would be applied in the module that is being called."""
        in_backward = torch._C._current_graph_task_id() != -1
        name = self._calls.current()
        if self._is_over or name is None or (in_backward and not (is_other_mask and probability)):
            return
        with self._guarded():
            value = torch.tensor([probability + (OTHER_MASK if in_backward else 0.0)], device="cpu")
            self._recording.add(self._step, DROPOUT, name, value, summed=True)

    # --- the backward pass ---

    def _watch_backward(self) -> None:
        plain = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if not torch.compiler.is_compiling():
                with self._guarded():
                    self._add_loss(tensors, *args, **kwargs)
            plain(tensors, *args, **kwargs)

        torch.autograd.backward = backward

    def _add_loss(self, tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        gradients = [grad_tensors] if isinstance(grad_tensors, torch.Tensor) else list(grad_tensors or ())
        if self._is_over or torch._C._current_graph_task_id() != -1:
            return
        factor = 1.0 if self._perturbation is None else self._perturbation.of_loss()
        for number, root in enumerate(roots):
            value = self._unscaled.pop(id(root), root).detach()
            gradient = gradients[number] if number < len(gradients) else None
            if gradient is not None:
                value = (value.to(torch.float32) * gradient).sum()
            elif value.dim():
                value = value.sum()
            self._recording.add(self._step, LOSS, "loss", value, factor=factor, summed=True)

    # --- optimizers ---

    def _watch_optimizers(self) -> None:
        from redline.launch.inside.compiler import keep_from_compiler

        def before(optimizer: Optimizer, args: object, kwargs: object) -> None:
            if not self._is_over and self._context.is_here():
                with self._guarded():
                    self._before_step(optimizer)

        def after(optimizer: Optimizer, args: object, kwargs: object) -> None:
            if not self._is_over and self._context.is_here():
                with self._guarded():
                    self._after_step(optimizer)

        keep_from_compiler(before)
        keep_from_compiler(after)
        register_optimizer_step_pre_hook(before)
        register_optimizer_step_post_hook(after)

    def _before_step(self, optimizer: Optimizer) -> None:
        if self._first_optimizer is None:
            self._forget_calls_as_steps()
            self._first_optimizer = optimizer
        scale = getattr(optimizer, "grad_scale", None)  # of a fused optimizer, which divides by it itself
        factor = 1.0 if scale is None else 1.0 / float(scale)
        parameters = self._parameters_of(optimizer)
        for name, parameter in parameters:
            if (0, START, name) not in self._recording.tensors and (0, MOVEMENT, name) not in self._recording.tensors:
                self._recording.add(0, START, name, parameter)
        for name, parameter in reversed(parameters):
            if parameter.grad is not None:
                self._recording.add(self._step, GRADIENT, self._again(GRADIENT, name), parameter.grad, factor=factor)

    def _about_to_clip(self, parameters: list[Tensor]) -> None:
        if self._is_over or not self._context.is_here():
            return
        with self._guarded():
            for name, parameter in reversed(self._named(parameters)):
                if parameter.grad is not None and (self._step, UNCLIPPED, name) not in self._recording.tensors:
                    self._recording.add(self._step, UNCLIPPED, name, parameter.grad)

    def _after_step(self, optimizer: Optimizer) -> None:
        for name, parameter in self._parameters_of(optimizer):
            start = self._recording.tensors.get((0, START, name))
            if start is not None:
                self._recording.add_difference(self._step, MOVEMENT, self._again(MOVEMENT, name), parameter, start)
        if optimizer is self._first_optimizer:
            self._add_buffers()
            self._step += 1
            if self._step >= self._check.steps:
                self._finish()

    def _add_buffers(self) -> None:
        """What modules keep beside their parameters, such as running means."""
        for name, buffer in self._names.buffers():
            start = self._recording.tensors.get((0, START, name))
            if start is not None:
                self._recording.add_difference(self._step, MOVEMENT, name, buffer, start)

    def _again(self, kind: str, name: str) -> str:
        """With a number, where there is one of this name in this step already: its optimizer steps more often."""
        number, known = 1, name
        while (self._step, kind, known) in self._recording.tensors:
            number += 1
            known = f"{name}#{number}"
        return known

    def _forget_calls_as_steps(self) -> None:
        """Calls of modules were taken for steps before there was an optimizer: they were none."""
        if self._step:
            self._recording.keep_only(self._step, START)
            self._step = 0

    def _parameters_of(self, optimizer: Optimizer) -> list[tuple[str, Tensor]]:
        every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        return self._named(every, type(optimizer).__name__)

    def _named(self, parameters: list[Tensor], owner_name: str = "") -> list[tuple[str, Tensor]]:
        """With their names, in the order in which the forward pass came to them."""
        known: list[tuple[int, str, Tensor]] = []
        for number, parameter in enumerate(parameters):
            found = self._names.of_parameter(parameter)
            if found is None:
                self._names.refresh()
                found = self._names.of_parameter(parameter)
            name, owner = found or (f"{owner_name}.{number}", 0)
            known.append((self._calls.order.get(owner, len(self._calls.order)), name, parameter))
        known.sort(key=lambda entry: entry[0])
        return [(name, parameter) for _, name, parameter in known]

    def _watch_scalers(self) -> None:
        """A scaler multiplies the loss, and leaves out a step whose gradients are not finite."""
        plain_scale, plain_step = GradScaler.scale, GradScaler.step

        def scale(scaler: GradScaler, outputs: Any) -> Any:
            scaled = plain_scale(scaler, outputs)
            if isinstance(scaled, torch.Tensor) and scaled is not outputs:
                self._unscaled = {id(scaled): outputs}
            return scaled

        def step(scaler: GradScaler, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            before = (self._step, self._first_optimizer)
            result = plain_step(scaler, optimizer, *args, **kwargs)
            if (self._step, self._first_optimizer) == before and optimizer is (self._first_optimizer or optimizer):
                with self._guarded():
                    self._left_out(optimizer)
            return result

        GradScaler.scale = scale  # type: ignore[method-assign, assignment]
        GradScaler.step = step  # type: ignore[method-assign, assignment]

    def _left_out(self, optimizer: Optimizer) -> None:
        self._recording.notes[f"the gradient scaler left out step {self._step + 1}"] = None
        self._before_step(optimizer)
        self._after_step(optimizer)

    # --- the end ---

    def _script_ended(self) -> None:
        """Where it has computed nothing, others that it started may have."""
        is_other = not self._recording.tensors and os.path.exists(self._path(self._rank()))  # noqa: PTH110
        if not self._is_over and self._context.is_here() and not is_other:
            with self._guarded():
                self._write()

    def _finish(self) -> None:
        """All steps that were asked for are done: the script does nothing more, neither evaluate nor save."""
        self._write()
        self._wait_for_others()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(0)

    def _write(self) -> None:
        self._is_over = True
        for path in self._written_files.left()[:_MOST_FILES]:
            self._recording.notes[f"the script wrote to {path}, outside of the folder for its output"] = None
        steps = max((step for step, kind, _ in self._recording.tensors if kind != START), default=-1) + 1
        facts = {
            "world": self._world(),
            "steps": steps,
            "by_optimizer": self._first_optimizer is not None,
            "lowered": self._lowered,
            "failure": self._failure,
            "check": {**self._check.to_settings(), "folder": ""},
            "torch": torch.__version__,
        }
        self._recording.write(self._check.folder, self._rank(), facts)

    def _wait_for_others(self) -> None:
        """A rank that ends while another still receives what it sent would fail that one."""
        until_s = time.monotonic() + _OTHERS_S
        names = [self._path(rank) for rank in range(self._world())]
        while time.monotonic() < until_s and not all(map(os.path.exists, names)):
            time.sleep(0.01)

    def _path(self, rank: int) -> str:
        return f"{self._check.folder}/rank-{rank}{FILE_ENDING}"

    def _rank(self) -> int:
        is_there = torch.distributed.is_available() and torch.distributed.is_initialized()
        return torch.distributed.get_rank() if is_there else int(os.environ.get("RANK", "0"))

    @staticmethod
    def _world() -> int:
        is_there = torch.distributed.is_available() and torch.distributed.is_initialized()
        return torch.distributed.get_world_size() if is_there else int(os.environ.get("WORLD_SIZE", "1"))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """What fails meanwhile is told by whoever reads the file. The script goes on, and its modes see none of it."""
        from torch.utils._python_dispatch import _disable_current_modes

        try:
            with torch.no_grad(), torch._C.DisableTorchFunction(), _disable_current_modes():
                yield
        except BaseException as error:  # noqa: BLE001
            self._failure = self._failure or f"{type(error).__name__}: {error}"[:300]
            pass_on(error)
