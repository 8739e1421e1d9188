"""What is trained: the questions that a planner asks of it, and who answers: a transformer, or a user's own module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from redline.errors import ParameterError
from redline.hardware.machine import Machine
from redline.model.flops import Pairs, backward_flops, forward_flops
from redline.model.model import Column, CountedModule, Model
from redline.model.parameters import active_parameters, count_parameters
from redline.plan.train.layout import Batch, Layout, micro_batches
from redline.plan.train.memory.footprint import Footprint
from redline.plan.train.memory.use import Mask, memory_use, module_memory, runnable
from redline.plan.train.search.plan_trust import (
    MeasuredAccuracy,
    PlannedJob,
    Trust,
    evidence,
    guess,
    trust_of,
)
from redline.plan.train.search.space import (
    LARGEST_CONTEXT,
    LARGEST_TENSOR,
    LEAST_CONTEXT_TOKENS,
    Space,
    context_pieces,
    layouts,
    listed_divisors,
    module_layouts,
)
from redline.plan.train.simulation.timeline_drawing import Drawing, model_drawing, module_drawing
from redline.plan.train.stacks import DEFAULT_STACK, Rates
from redline.plan.train.step_cost import MemoryUse
from redline.plan.train.time.collectives import gather_weights_s, held, scatter_gradients_s
from redline.plan.train.time.layer import OPERATORS_PER_LAYER, host_forward_s, needed_flops, operators_s
from redline.plan.train.time.step_costs import StepCosts, in_columns, once_per_step, step_costs
from redline.plan.train.training_choices import Recompute


@dataclass(frozen=True)
class Transformer:
    """A model of tokens."""

    model: Model

    usual_stack = DEFAULT_STACK  # where none is named
    unit = "tokens"  # that speed is counted in
    batch_unit = "sequences"  # that a batch consists of
    must_divide = "copies have to divide the batch, and tensor parallelism the heads"  # where no layout can run

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
        """Those that each token meets."""
        return int(active_parameters(self.model))

    def sequence_length(self, given: int | None) -> int:
        """Tokens of a sequence; 1 where a batch consists of samples. Raises ParameterError where that does not fit."""
        if given is None:
            raise ParameterError("sequence", " is missing: how many tokens has a sequence, such as 4096?")
        return given

    def flops_per_step(self, batch: Batch, *, adapters: bool = False) -> float:
        """What the model needs, whatever the layout: nothing computed twice, no pair of tokens that the mask hides.

        Where adapters alone are trained, no gradients of the model's own weights.
        """
        tokens = batch.sequence * batch.sequences
        forward = forward_flops(self.model, tokens, batch.sequence, Pairs.SEEN)
        backward = backward_flops(self.model, tokens, batch.sequence, Pairs.SEEN, flash=0)
        skipped = forward.layers + forward.head if adapters else 0.0
        return float(forward.total + backward.total - skipped)

    def layouts(self, batch: Batch, space: Space) -> Layout:
        """All that are worth a look, as columns."""
        return layouts(self.model, batch, space)

    def runnable(self, batch: Batch, layout: Layout, foot: Footprint) -> Mask:
        """True where no rule stands against a layout, whatever its memory."""
        return runnable(self.model, batch, layout, foot)

    def rates(self, rates: Rates, machine: Machine) -> Rates:
        """Those of a software stack, with what is known better of this workload."""
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
        """The interval of the step time, and what of the job is new."""
        return trust_of(replace(job, model=self.model))

    def evidence(self, job: PlannedJob) -> tuple[MeasuredAccuracy, ...]:
        """How well such predictions fared on measured runs; nothing where there are none."""
        return evidence(replace(job, model=self.model))

    def refuse(self, fixed: Mapping[str, tuple[float, ...]]) -> None:
        """It has all that a layout can divide."""

    def objections(self, name: str, value: int, sequence: int) -> Iterator[str]:
        """Why a field of the layout cannot have this value, whatever the rest of the layout is."""
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


# --- costs of the parts of a step -------------------------------------------------------------------------------------
# The module is taken for a stack of as many equal layers as it has blocks, each with an equal share of all operators
# and all parameters. So a layer is what FSDP gathers at once, and what one message of gradients reduces.


def module_step_costs(module: CountedModule, batch: Batch, layout: Layout, rates: Rates) -> StepCosts[Column]:
    """Of every row. A layer of a module is what FSDP wraps; gradients are added up in memory after each micro-batch."""
    layers, trained = float(module.blocks), float(module.trained_parameters)
    shards = held(layout, rates)
    forward_s = operators_s(module, layout.micro_batch, rates, backward=False) / layers
    backward_s = operators_s(module, layout.micro_batch, rates, backward=True) / layers
    added_s = module.trained_parameters / layers * rates.accumulate_bytes / rates.memory_bytes_per_s
    host_s = host_forward_s(module, rates) / layers
    again = np.where(layout.recompute == Recompute.FULL, 1.0, 0.0)
    return in_columns(
        once_per_step(trained, 0.0, layers, layout, rates),
        stages=1.0,
        chunks=1.0,
        micro_batches=micro_batches(batch, layout),
        schedule=layout.schedule,
        layers_per_stage=layers,
        layers_last_stage=layers,
        layers=layers,
        forward_s=forward_s,
        backward_s=backward_s + added_s,
        recompute_s=again * forward_s,
        host_forward_s=host_s,
        host_backward_s=host_s * (rates.host_backward + again),
        gather_s=gather_weights_s(module.parameters / layers, shards, layout, rates),
        scatter_s=scatter_gradients_s(trained / layers, shards, layout, rates),
        host_micro_batch_s=rates.host_micro_batch_s,
        overlap=rates.overlap,
        host_step_s=rates.host_step_s,
    )


def with_measured_host(rates: Rates, machine: Machine) -> Rates:
    """Where a profile says what the host needs for an operator, a layer takes that for each of its operators."""
    measured = [figure.value for figure in (machine.dispatch_ns, machine.launch_ns) if figure is not None]
    return replace(rates, host_layer_s=OPERATORS_PER_LAYER * max(measured) / 1e9) if measured else rates


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


Workload = Transformer | Module
"""A planner asks both the same questions."""
