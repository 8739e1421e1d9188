"""What is trained, as the planner sees it: the questions that it asks of a transformer or of a user's own module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from redline.hardware.machine import Machine
    from redline.model.model import Column
    from redline.plan.train.layout import Batch, Layout
    from redline.plan.train.memory.footprint import Footprint
    from redline.plan.train.memory.use import Mask
    from redline.plan.train.search.plan_trust import MeasuredAccuracy, PlannedJob, Trust
    from redline.plan.train.search.space import Space
    from redline.plan.train.simulation.timeline_drawing import Drawing
    from redline.plan.train.step_cost import MemoryUse
    from redline.plan.train.time.step_costs import StepCosts
    from redline.plan.train.training_rates import Rates


class Workload(Protocol):
    """`Transformer` and `Module` answer these."""

    @property
    def name(self) -> str: ...

    @property
    def usual_stack(self) -> str:
        """The software stack that is assumed where none is named."""

    @property
    def unit(self) -> str:
        """What speed is counted in: tokens or samples."""

    @property
    def batch_unit(self) -> str:
        """What a batch consists of: sequences or samples."""

    @property
    def parameters(self) -> int: ...

    @property
    def active_parameters(self) -> int:
        """Those that each token meets."""

    @property
    def experts(self) -> int:
        """Of a layer; 0 where there are none."""

    def sequence_length(self, given: int | None) -> int:
        """Tokens of a sequence; 1 where a batch consists of samples. Raises ParameterError where that does not fit."""

    def flops_per_step(self, batch: Batch, *, adapters: bool = False) -> float:
        """What the model needs, whatever the layout: nothing computed twice, no pair of tokens that the mask hides.

        Where adapters alone are trained, no gradients of the model's own weights.
        """

    def layouts(self, batch: Batch, space: Space) -> Layout:
        """All that are worth a look, as columns."""

    def runnable(self, batch: Batch, layout: Layout, foot: Footprint) -> Mask:
        """True where no rule stands against a layout, whatever its memory."""

    def rates(self, rates: Rates, machine: Machine) -> Rates:
        """Those of a software stack, with what is known better of this workload."""

    def step_costs(self, batch: Batch, layout: Layout, rates: Rates) -> StepCosts[Column]: ...

    def memory(self, batch: Batch, layout: Layout, foot: Footprint) -> MemoryUse: ...

    def drawing(
        self, batch: Batch, layout: Layout, rates: Rates, costs: StepCosts[float], *, dtype: str, half: str
    ) -> Drawing:
        """How the events of a simulated step are drawn."""

    def trust(self, job: PlannedJob) -> Trust:
        """The interval of the step time, and what of the job is new."""

    def evidence(self, job: PlannedJob) -> tuple[MeasuredAccuracy, ...]:
        """How well such predictions fared on measured runs; nothing where there are none."""

    def refuse(self, fixed: Mapping[str, tuple[float, ...]]) -> None:
        """Raise ParameterError where fields of the layout are fixed that this workload does not have."""

    def objections(self, name: str, value: int, sequence: int) -> Iterator[str]:
        """Why a field of the layout cannot have this value, whatever the rest of the layout is."""

    @property
    def must_divide(self) -> str:
        """What has to divide what, for a message where no layout can run."""
