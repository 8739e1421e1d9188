"""The work of an engine's steps by their labels and the model: of kernels whose operators were not recorded.

A graph is launched as one; what is in it was recorded when it was captured, if at all. What the whole step must do is
known all the same where its label has the sizes of its batch.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from redline.hardware.machine import Machine
from redline.ledger.rank.activity import DeviceActivity, Mask, compute_ns
from redline.ledger.rank.step_borders import step_borders
from redline.roofline.roofline import Roof, roof_of
from redline.roofline.sizes import Work
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Timeline
from redline.trace import schema

if TYPE_CHECKING:
    from redline.model.served_model import ServedModel

Floats = npt.NDArray[np.float64]
FAMILY = "engine step"


@dataclass(frozen=True, kw_only=True)
class PieceWork:
    """What operators tell of the work of each piece of compute."""

    is_known: Mask
    flops: Floats
    bytes: Floats


@dataclass(frozen=True, kw_only=True)
class RatedStep:
    """What is left of a step's work for the kernels that no operator tells of."""

    label: int  # text
    work: Work
    roof: Roof
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
        math = np.array([min(step.roof.math_ns / step.time_ns, 1.0) for step in self.steps] + [0.0])
        roof = np.array([min(step.roof.roof_ns / step.time_ns, 1.0) for step in self.steps] + [0.0])
        return math[self.step_of], (roof - math)[self.step_of]


def rated_steps(
    timeline: Timeline,
    activity: DeviceActivity,
    machine: Machine | None,
    served: "ServedModel | None",
    told: PieceWork,
) -> RatedSteps:
    """What operators tell is part of their step.

    A job of several ranks divides its model in a way that no label tells.
    """
    step_of = np.full(len(activity.compute.row), NONE, np.int64)
    if served is None or machine is None or activity.device != "gpu" or timeline.metadata.world_size > 1:
        return RatedSteps(steps=(), step_of=step_of)
    steps: list[RatedStep] = []
    began_ns, took_ns = activity.compute.start_ns, compute_ns(timeline, activity)
    borders = step_borders(timeline, activity.window_ns)
    for label, low_ns, high_ns in zip(timeline.steps.label.tolist(), *(one.tolist() for one in borders), strict=True):
        inside = (began_ns >= low_ns) & (began_ns < high_ns)
        rest = inside & ~told.is_known
        time_ns, work = int(took_ns[rest].sum()), work_of_step(served, timeline.text(label))
        if work is None or not time_ns:
            continue
        left = replace(
            work,
            flops=max(work.flops - round(told.flops[inside].sum()), 0),
            bytes=max(work.bytes - round(told.bytes[inside].sum()), 0),
        )
        roof = roof_of(left, left.dtype, machine)
        if roof is not None and not np.isnan(roof.roof_ns):
            step_of[rest] = len(steps)
            steps.append(RatedStep(label=label, work=left, roof=roof, time_ns=time_ns))
    return RatedSteps(steps=tuple(steps), step_of=step_of)


def work_of_step(served: "ServedModel", label: str) -> Work | None:
    """None where the label has no sizes."""
    sizes = schema.batch_sizes_of(label)
    if sizes is None:
        return None
    flops = served.least_flops(requests=sizes.requests, queries=sizes.queries, pairs=sizes.pairs)
    read = served.weights_read() + served.cache_read(sizes.keys)
    return Work(flops=round(flops), bytes=round(read), dtype=served.dtype, family=FAMILY)
