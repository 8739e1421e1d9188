"""A user's own nn.Module as a workload: counted by operators, and divided by data parallelism and ZeRO alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from redline.errors import ParameterError
from redline.hardware.machine import Machine
from redline.model.counted_module import CountedModule
from redline.model.model import Column
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.memory.footprint import Footprint
from redline.planner.train.memory.module_memory import module_memory
from redline.planner.train.memory.runnable import Mask
from redline.planner.train.search.plan_trust import Trust, guess
from redline.planner.train.search.situations import PlannedJob
from redline.planner.train.search.space import Space, module_layouts
from redline.planner.train.search.training_plan import MeasuredAccuracy
from redline.planner.train.simulation.timeline_drawing import Drawing, module_drawing
from redline.planner.train.step_cost import MemoryUse
from redline.planner.train.time.module_step_costs import module_step_costs, with_measured_host
from redline.planner.train.time.operators import needed_flops
from redline.planner.train.time.step_costs import StepCosts
from redline.planner.train.training_choices import Recompute
from redline.planner.train.training_rates import Rates

# Of a transformer: in how many parts it is divided, and how.
_PARTS, _HOW = (
    ("tp", "pp", "cp", "ep", "chunks"),
    ("schedule", "sequence_parallel", "flash", "execution", "imbalance", "lora"),
)


@dataclass(frozen=True)
class Module:
    """A model of samples, whatever these are."""

    counted: CountedModule

    usual_stack = "fsdp"  # plain PyTorch, which is what runs a module of one's own
    unit = "samples"
    batch_unit = "samples"
    experts = 0
    must_divide = "copies have to divide the batch"

    @property
    def name(self) -> str:
        return self.counted.name

    @property
    def parameters(self) -> int:
        return self.counted.parameters

    @property
    def active_parameters(self) -> int:
        return self.counted.parameters

    def sequence_length(self, given: int | None) -> int:
        if given is not None:
            raise ParameterError("sequence", " is for models of tokens; a module has samples: give the batch alone")
        return 1

    def flops_per_step(self, batch: Batch, *, adapters: bool = False) -> float:
        return float(needed_flops(self.counted) * batch.sequences)

    def layouts(self, batch: Batch, space: Space) -> Layout:
        return module_layouts(batch, space)

    def runnable(self, batch: Batch, layout: Layout, foot: Footprint) -> Mask:
        """Nothing stands against data parallelism that its layouts did not heed already."""
        return np.ones(np.shape(layout.dp), np.bool_)

    def rates(self, rates: Rates, machine: Machine) -> Rates:
        """Host time of a layer was fitted to transformers; operators of a module are counted, so they can be timed."""
        return with_measured_host(rates, machine)

    def step_costs(self, batch: Batch, layout: Layout, rates: Rates) -> StepCosts[Column]:
        return module_step_costs(self.counted, batch, layout, rates)

    def memory(self, batch: Batch, layout: Layout, foot: Footprint) -> MemoryUse:
        return module_memory(self.counted, batch, layout, foot)

    def drawing(
        self, batch: Batch, layout: Layout, rates: Rates, costs: StepCosts[float], *, dtype: str, half: str
    ) -> Drawing:
        return module_drawing(self.counted, layout, rates, costs, half=half)

    def trust(self, job: PlannedJob) -> Trust:
        """A guess: modules were never held against measured runs."""
        return guess(job)

    def evidence(self, job: PlannedJob) -> tuple[MeasuredAccuracy, ...]:
        return ()

    def refuse(self, fixed: Mapping[str, tuple[float, ...]]) -> None:
        """Only the operators are known, not how the inside could be divided."""
        parts = [name for name in _PARTS if any(value > 1 for value in fixed.get(name, ()))]
        for name in (*parts, *(name for name in _HOW if name in fixed)):
            raise ParameterError(
                name,
                ": a module of your own is planned with copies of it and ZeRO or FSDP; how its inside could be "
                "divided is not known\nleave that out, or describe a transformer by a config.json or by numbers",
            )
        if Recompute.SELECTIVE in fixed.get("recompute", ()):
            raise ParameterError("recompute", " selective is for transformers; a module of your own has none or full")

    def objections(self, name: str, value: int, sequence: int) -> Iterator[str]:
        yield from ()
