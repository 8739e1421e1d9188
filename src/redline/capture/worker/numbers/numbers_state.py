"""Where the recording of a process stands: in which step, with which tensors, what failed, and whether it is over."""

from __future__ import annotations

from contextlib import contextmanager

import torch

from redline.capture.worker.exception_origin import pass_on
from redline.capture.worker.numbers.recording import NumbersRecording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from redline.capture.number_check import NumberCheck
    from redline.capture.worker.process_context import ProcessContext

_MOST_LETTERS = 300


class NumbersState:
    """Shared by all that record something."""

    def __init__(self, context: ProcessContext, check: NumberCheck) -> None:
        self._context = context
        self.check = check
        self.recording = NumbersRecording()
        self.step = 0
        self.by_optimizer = False  # an optimizer steps; otherwise calls of modules are the steps
        self.lowered = False  # fp32 was not computed as fp32
        self.failure = ""
        self.is_over = False

    def goes_on(self) -> bool:
        return not self.is_over and self._context.is_here()

    def has(self, kind: str, name: str, step: int | None = None) -> bool:
        """In this step, if no other is given."""
        return (self.step if step is None else step, kind, name) in self.recording.tensors

    def add(self, kind: str, name: str, tensor: Tensor, *, factor: float = 1.0, summed: bool = False) -> None:
        """In this step."""
        self.recording.add(self.step, kind, name, tensor, factor=factor, summed=summed)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """What fails meanwhile is told by whoever reads the file. The script goes on, and its modes see none of it."""
        from torch.utils._python_dispatch import _disable_current_modes

        try:
            with torch.no_grad(), torch._C.DisableTorchFunction(), _disable_current_modes():
                yield
        except BaseException as error:  # noqa: BLE001
            self.failure = self.failure or f"{type(error).__name__}: {error}"[:_MOST_LETTERS]
            pass_on(error)
