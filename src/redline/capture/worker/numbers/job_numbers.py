"""Has the numbers of a process of the job recorded from now on, with the seed and perturbation that were asked for."""

from __future__ import annotations

import atexit

import torch

from redline.capture.number_check import NumberCheck
from redline.capture.worker.numbers.losses import LossNumbers
from redline.capture.worker.numbers.module_calls import NamedCalls
from redline.capture.worker.numbers.module_names import ModuleNames
from redline.capture.worker.numbers.module_outputs import ModuleOutputs
from redline.capture.worker.numbers.numbers_end import NumbersEnd
from redline.capture.worker.numbers.numbers_state import NumbersState
from redline.capture.worker.numbers.optimizer_numbers import OptimizerNumbers
from redline.capture.worker.numbers.perturbation import Perturbation
from redline.capture.worker.numbers.repeatable import seed_everything

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.capture.worker.process_context import ProcessContext


def record_numbers(context: ProcessContext) -> None:
    """To be called when torch has been imported, and nothing of the script has run with it."""
    check = NumberCheck.from_settings(context.settings.numbers)
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
