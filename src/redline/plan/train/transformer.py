"""A transformer as a workload: described by numbers, and divided in every way that planners know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from redline.errors import ParameterError
from redline.hardware.machine import Machine
from redline.model.flops import Pairs, backward_flops, forward_flops
from redline.model.model import Column, Model
from redline.model.parameters import active_parameters, count_parameters
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.memory.footprint import Footprint
from redline.plan.train.memory.use import Mask, memory_use, runnable
from redline.plan.train.search.plan_trust import MeasuredAccuracy, PlannedJob, PlannedRun, Trust, evidence, trust_of
from redline.plan.train.search.space import (
    LARGEST_CONTEXT,
    LARGEST_TENSOR,
    LEAST_CONTEXT_TOKENS,
    Space,
    context_pieces,
    layouts,
    listed_divisors,
)
from redline.plan.train.simulation.timeline_drawing import Drawing, model_drawing
from redline.plan.train.stacks import DEFAULT_STACK
from redline.plan.train.step_cost import MemoryUse
from redline.plan.train.time.step_costs import StepCosts, step_costs
from redline.plan.train.training_rates import Rates


@dataclass(frozen=True)
class Transformer:
    """A model of tokens."""

    model: Model

    usual_stack = DEFAULT_STACK
    unit = "tokens"
    batch_unit = "sequences"
    must_divide = "copies have to divide the batch, and tensor parallelism the heads"

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def experts(self) -> int:
        return int(self.model.experts)

    @cached_property
    def parameters(self) -> int:
        return int(count_parameters(self.model).total)

    @cached_property
    def active_parameters(self) -> int:
        return int(active_parameters(self.model))

    def sequence_length(self, given: int | None) -> int:
        if given is None:
            raise ParameterError("sequence", " is missing: how many tokens has a sequence, such as 4096?")
        return given

    def flops_per_step(self, batch: Batch, *, adapters: bool = False) -> float:
        tokens = batch.sequence * batch.sequences
        forward = forward_flops(self.model, tokens, batch.sequence, Pairs.SEEN)
        backward = backward_flops(self.model, tokens, batch.sequence, Pairs.SEEN, flash=0)
        skipped = forward.layers + forward.head if adapters else 0.0
        return float(forward.total + backward.total - skipped)

    def layouts(self, batch: Batch, space: Space) -> Layout:
        return layouts(self.model, batch, space)

    def runnable(self, batch: Batch, layout: Layout, foot: Footprint) -> Mask:
        return runnable(self.model, batch, layout, foot)

    def rates(self, rates: Rates, machine: Machine) -> Rates:
        return rates

    def step_costs(self, batch: Batch, layout: Layout, rates: Rates) -> StepCosts[Column]:
        return step_costs(self.model, batch, layout, rates)

    def memory(self, batch: Batch, layout: Layout, foot: Footprint) -> MemoryUse:
        return memory_use(self.model, batch, layout, foot)

    def drawing(
        self, batch: Batch, layout: Layout, rates: Rates, costs: StepCosts[float], *, dtype: str, half: str
    ) -> Drawing:
        return model_drawing(self.model, batch, layout, rates, costs, dtype=dtype, half=half)

    def trust(self, job: PlannedJob) -> Trust:
        return trust_of(self._run(job))

    def evidence(self, job: PlannedJob) -> tuple[MeasuredAccuracy, ...]:
        return evidence(self._run(job))

    def _run(self, job: PlannedJob) -> PlannedRun:
        return PlannedRun(job=job, model=self.model)

    def refuse(self, fixed: Mapping[str, tuple[float, ...]]) -> None:
        """It has all that a layout can divide."""

    def objections(self, name: str, value: int, sequence: int) -> Iterator[str]:
        if name == "tp":
            yield from self._against_tensor(value)
        if name == "pp" and value > self.model.layers:
            yield f"the model has only {self.model.layers:g} layers to deal to stages"
        if name == "cp":
            yield from self._against_context(value, sequence)
        if name == "ep":
            yield from self._against_experts(value)

    def _against_tensor(self, value: int) -> Iterator[str]:
        heads = int(self.model.heads)
        if heads % value:
            yield f"that does not divide the {heads} attention heads of the model; give one of {listed_divisors(heads)}"
        if value > LARGEST_TENSOR:
            yield f"nobody has measured more than {LARGEST_TENSOR}, so nothing is predicted"

    def _against_experts(self, value: int) -> Iterator[str]:
        if not self.experts and value > 1:
            yield "the model has no experts"
        if self.experts and self.experts % value:
            divisors = listed_divisors(self.experts)
            yield f"that does not divide the {self.experts} experts of a layer; give one of {divisors}"

    def _against_context(self, value: int, sequence: int) -> Iterator[str]:
        if value > LARGEST_CONTEXT:
            yield f"nobody has measured more than {LARGEST_CONTEXT}, so nothing is predicted"
        if value > 1 and sequence / value < LEAST_CONTEXT_TOKENS:
            most = max(1, sequence // LEAST_CONTEXT_TOKENS)
            yield f"pieces of a sequence below {LEAST_CONTEXT_TOKENS} tokens hide no traffic; give at most {most}"
        pieces = context_pieces(self.model, value)
        if sequence % pieces:
            yield f"{sequence} tokens cannot be cut into {pieces} equal pieces; change it or --sequence"
