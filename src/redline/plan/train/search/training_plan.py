"""A plan of a training job: the layouts worth running, what they cost, why, and how far the figures can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from redline.plan.train.layout import Batch, Layout
from redline.plan.train.search.plan_trust import MeasuredAccuracy
from redline.plan.train.step_cost import MemoryUse, StepTime

if TYPE_CHECKING:
    from redline.hardware.machine import Machine
    from redline.plan.train.measured import FittedJob
    from redline.plan.train.search.plan_trust import Trust
    from redline.plan.train.search.search import Alternative, Change
    from redline.plan.train.time.step import Overlap
    from redline.plan.train.time.step_costs import StepCosts
    from redline.plan.train.training_rates import Rates
    from redline.plan.train.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One layout with what it should cost: plain numbers, no columns."""

    layout: Layout
    micro_batches: int
    time: StepTime
    step_s: float
    step_low_s: float
    step_high_s: float
    """The 80 % interval."""
    tokens_per_s: float
    """Of all devices together; of a module, samples."""
    mfu: float
    """FLOPs that the model needs, over what the devices could do in that time at their peak."""
    memory: MemoryUse
    peak_bytes: float
    peak_low_bytes: float
    peak_high_bytes: float
    chance: float
    """Of running out of memory."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """All that `redline plan train` says, whichever way it is shown."""

    workload: Workload
    parameters: int
    active_parameters: int
    flops_per_step: float
    machine: Machine
    dtype: str
    stack: str
    devices: int
    devices_per_node: int
    device_bytes: float
    batch: Batch
    by: str
    """speed or memory: what the ranking goes by."""
    accepted_chance: float
    considered: int
    """Layouts that can run at all."""
    fitting: int
    """Of these, the ones whose chance of running out of memory is accepted."""
    best: Candidate
    """Where nothing fits, the layout that needs the least memory."""
    safer: Candidate | None
    """Where the best may run out of memory: one that hardly can, and is hardly slower."""
    step_costs: StepCosts[float]
    """Of the best."""
    rates: Rates
    """What the machine does under this stack."""
    ranked: tuple[Candidate, ...]
    frontier: tuple[Candidate, ...]
    """Pareto frontier of step time and memory."""
    overlaps: tuple[Overlap, ...]
    alternatives: tuple[Alternative, ...]
    changes: tuple[Change, ...]
    evidence: tuple[MeasuredAccuracy, ...]
    trust: Trust
    """Of the step time."""
    measured: FittedJob | None = None
    """The measured step that its constants were fitted to."""

    @property
    def tokens_per_step(self) -> float:
        """Of a module, samples."""
        return float(self.batch.sequence * self.batch.sequences)

    @property
    def unit(self) -> str:
        """What the batch counts, and speed with it: tokens, or the samples of a module of the user's own."""
        return self.workload.unit

    @property
    def fits(self) -> bool:
        return self.fitting > 0
