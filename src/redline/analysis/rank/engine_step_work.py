"""The work of an engine's steps by their labels and the model: of kernels whose operators were not recorded.

A graph is launched as one; what is in it was recorded when it was captured, if at all. What the whole step must do is
known all the same where its label has the sizes of its batch.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from redline.analysis.rank.activity import DeviceActivity, Mask, compute_ns
from redline.analysis.rank.step_borders import step_borders
from redline.hardware.machine import Machine
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Timeline
from redline.trace import schema
from redline.work.roofline import roof_of
from redline.work.work import Work

if TYPE_CHECKING:
    from redline.model.served_model import ServedModel

Floats = npt.NDArray[np.float64]
FAMILY = "engine step"


@dataclass(frozen=True, kw_only=True)
class RatedStep:
    """What is left of a step's work for the kernels that no operator tells of."""

    label: int  # text
    work: Work
    math_ns: float
    memory_ns: float
    time_ns: int  # that these kernels took


@dataclass(frozen=True, kw_only=True)
class RatedSteps:
    """Steps that are rated as a whole, and which pieces of compute belong to them."""

    steps: tuple[RatedStep, ...]
    step_of: I64  # for each piece of compute; NONE where its work is known otherwise, or not known

    @property
    def rated(self) -> Mask:
        rated: Mask = self.step_of != NONE
        return rated

    def needs(self) -> tuple[Floats, Floats]:
        """For each piece the shares of its time that the arithmetic needs, and the bytes beyond that."""
        math = np.array([min(step.math_ns / max(step.time_ns, 1), 1.0) for step in self.steps] + [0.0])
        beyond = [max(step.memory_ns - step.math_ns, 0.0) / max(step.time_ns, 1) for step in self.steps]
        memory = np.minimum(np.array([*beyond, 0.0]), 1.0 - math)
        memory[-1] = 0.0
        return math[self.step_of], memory[self.step_of]


def rated_steps(
    timeline: Timeline,
    activity: DeviceActivity,
    machine: Machine | None,
    served: "ServedModel | None",
    known: tuple[Mask, Floats, Floats],
) -> RatedSteps:
    """`known` says which pieces are rated by their operators, with FLOPs and bytes: these are part of their step.

    A job of several ranks divides its model in a way that no label tells.
    """
    step_of = np.full(len(activity.compute.row), NONE, np.int64)
    if served is None or machine is None or activity.device != "gpu" or timeline.metadata.world_size > 1:
        return RatedSteps(steps=(), step_of=step_of)
    is_known, flops, bytes_ = known
    steps: list[RatedStep] = []
    began_ns, took_ns = activity.compute.start_ns, compute_ns(timeline, activity)
    borders = step_borders(timeline, activity.window_ns)
    for label, low_ns, high_ns in zip(timeline.steps.label.tolist(), *(one.tolist() for one in borders), strict=True):
        inside = (began_ns >= low_ns) & (began_ns < high_ns)
        rest = inside & ~is_known
        done = inside & is_known
        step = _rated(served, timeline, label, machine, (flops[done].sum(), bytes_[done].sum(), took_ns[rest].sum()))
        if step is not None:
            step_of[rest] = len(steps)
            steps.append(step)
    return RatedSteps(steps=tuple(steps), step_of=step_of)


def _rated(
    served: "ServedModel", timeline: Timeline, label: int, machine: Machine, known: tuple[float, float, int]
) -> RatedStep | None:
    """None where there is nothing to rate, or no roof. `known`: FLOPs and bytes of operators, and time of the rest."""
    work = work_of_step(served, timeline.text(label))
    flops, bytes_, time_ns = known
    if work is None or not time_ns:
        return None
    left = replace(work, flops=max(work.flops - round(flops), 0), bytes=max(work.bytes - round(bytes_), 0))
    roof = roof_of(left, left.dtype, machine)
    if roof is None or np.isnan(roof.math_ns):
        return None
    return RatedStep(label=label, work=left, math_ns=roof.math_ns, memory_ns=roof.memory_ns, time_ns=int(time_ns))


def work_of_step(served: "ServedModel", label: str) -> Work | None:
    """None where the label has no sizes."""
    sizes = schema.batch_sizes_of(label)
    if sizes is None:
        return None
    flops = served.least_flops(requests=sizes.requests, queries=sizes.queries, pairs=sizes.pairs)
    read = served.weights_read() + served.cache_read(sizes.keys)
    return Work(flops=round(flops), bytes=round(read), dtype=served.dtype, family=FAMILY)
