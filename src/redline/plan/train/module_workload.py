"""A user's own nn.Module as a workload: counted by operators, and divided by data parallelism and ZeRO alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from redline.errors import ParameterError
from redline.hardware.machine import Machine
from redline.model.counted_module import CountedModule
from redline.model.model import Column, Number
from redline.plan.train.layout import Batch, Layout, micro_batches
from redline.plan.train.memory.footprint import Footprint
from redline.plan.train.memory.use import Mask, module_memory
from redline.plan.train.search.plan_trust import MeasuredAccuracy, PlannedJob, Trust, guess
from redline.plan.train.search.space import Space, module_layouts
from redline.plan.train.simulation.timeline_drawing import Drawing, module_drawing
from redline.plan.train.step_cost import MemoryUse
from redline.plan.train.time.collectives import gather_weights_s, held, scatter_gradients_s
from redline.plan.train.time.layer import OPERATORS_PER_LAYER, host_forward_s, needed_flops, operators_s
from redline.plan.train.time.step_costs import StepCosts, in_columns, once_per_step
from redline.plan.train.training_choices import Recompute
from redline.plan.train.training_rates import Rates

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
    update = once_per_step(trained, 0.0, layers, layout, rates)
    return in_columns(
        StepCosts[Number](
            stages=1.0,
            chunks=1.0,
            micro_batches=micro_batches(batch, layout),
            schedule=layout.schedule,
            layers_per_stage=layers,
            layers_last_stage=layers,
            layers=layers,
            forward_s=forward_s,
            backward_s=backward_s + added_s,
            weight_gradient_s=0.0,
            recompute_s=again * forward_s,
            host_forward_s=host_s,
            host_backward_s=host_s * (rates.host_backward + again),
            tensor_forward_s=0.0,
            tensor_backward_s=0.0,
            tensor_sent_s=0.0,
            context_forward_s=0.0,
            context_backward_s=0.0,
            ring_s=0.0,
            attention_s=0.0,
            expert_forward_s=0.0,
            expert_backward_s=0.0,
            expert_sent_s=0.0,
            gather_s=gather_weights_s(module.parameters / layers, shards, layout, rates),
            scatter_s=scatter_gradients_s(trained / layers, shards, layout, rates),
            head_forward_s=0.0,
            head_backward_s=0.0,
            host_micro_batch_s=rates.host_micro_batch_s,
            send_s=0.0,
            reduce_s=update.reduce_s,
            broadcast_s=update.broadcast_s,
            overlap=rates.overlap,
            optimizer_s=update.optimizer_s,
            offload_s=update.offload_s,
            host_step_s=rates.host_step_s,
        )
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
