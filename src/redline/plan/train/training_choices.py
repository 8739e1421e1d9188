"""What can be chosen by name in a plan of training. Imports no NumPy: the help of the command line shows it."""

from collections.abc import Mapping
from enum import IntEnum


class PipelineSchedule(IntEnum):
    """In which order a pipeline's stages work on micro-batches."""

    GPIPE = 0
    ONE_F_ONE_B = 1  # interleaved where `chunks` is above 1
    ZERO_BUBBLE = 2  # the gradient of weights fills the gaps
    DUALPIPE = 3  # the same, from both ends, with traffic of experts behind the compute of another micro-batch


class Recompute(IntEnum):
    """Which activations are computed again in the backward pass rather than kept."""

    NONE = 0
    SELECTIVE = 1  # the inside of attention
    FULL = 2  # everything but the input of each layer


class Execution(IntEnum):
    """How kernels are launched."""

    USUAL = 0  # as the measured runs of the stack
    COMPILED = 1  # torch.compile: chains of small operators become one kernel each
    GRAPHS = 2  # compiled, and replayed from CUDA graphs; or written in CUDA: no launch waits for Python


SCHEDULES = {
    "gpipe": PipelineSchedule.GPIPE,
    "1f1b": PipelineSchedule.ONE_F_ONE_B,
    "zero-bubble": PipelineSchedule.ZERO_BUBBLE,
    "dualpipe": PipelineSchedule.DUALPIPE,
}
EXECUTIONS = {"usual": Execution.USUAL, "compiled": Execution.COMPILED, "graphs": Execution.GRAPHS}
RECOMPUTES = {"none": Recompute.NONE, "selective": Recompute.SELECTIVE, "full": Recompute.FULL}
NAMED: Mapping[str, Mapping[str, int]] = {"schedule": SCHEDULES, "recompute": RECOMPUTES, "execution": EXECUTIONS}
"""Of fields of a layout whose values have names: the number of each."""
BY = ("speed", "memory", "cost")
"""What the best layout is the best in."""
FRAMEWORKS = ("megatron", "torchtitan", "deepspeed", "accelerate", "nanotron")
"""Whose launch arguments or config a layout can be written as."""
PRECISIONS = ("bf16", "fp16", "fp8", "fp4", "tf32", "fp32")
ACCEPTED_CHANCE = 0.2
"""Of running out of memory: a layout with more is not proposed."""
TOP = 8
"""Layouts that are listed."""
