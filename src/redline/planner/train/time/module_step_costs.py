"""What the parts of a step cost of a user's own module, which only data parallelism and ZeRO divide.

The module is taken for a stack of as many equal layers as it has blocks, each with an equal share of all operators and
all parameters. So a layer is what FSDP gathers at once, and what one message of gradients reduces.
"""

from dataclasses import replace

import numpy as np

from redline.hardware.machine import Machine
from redline.model.counted_module import CountedModule
from redline.model.model import Column, Number
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.stages import micro_batches
from redline.planner.train.time.operators import OPERATORS_PER_LAYER, host_forward_s, operators_s
from redline.planner.train.time.step_costs import StepCosts, in_columns, once_per_step
from redline.planner.train.time.traffic import gather_weights_s, held, scatter_gradients_s
from redline.planner.train.training_choices import Recompute
from redline.planner.train.training_rates import Rates


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
