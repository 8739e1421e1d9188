"""The pieces of a step of a user's own module, which only data parallelism and ZeRO divide.

The module is taken for a stack of as many equal layers as it has blocks, each with an equal share of all operators and
all parameters. So a layer is what FSDP gathers at once, and what one message of gradients reduces.
"""

from dataclasses import replace

import numpy as np

from redline.hardware.machine import Machine
from redline.model.counted import CountedModule
from redline.model.model import Number
from redline.planner.train.layout import Batch, Layout, Recompute
from redline.planner.train.rates import Rates
from redline.planner.train.stages import micro_batches
from redline.planner.train.time.operators import OPERATORS_PER_LAYER, host_forward_s, operators_s
from redline.planner.train.time.pieces import Pieces, in_columns, once_per_step
from redline.planner.train.time.traffic import gather_weights_s, held, scatter_gradients_s

# What a module is not divided by, and what it has no part of.
_NONE = (
    "weight_gradient_s", "tensor_forward_s", "tensor_backward_s", "context_forward_s", "context_backward_s",
    "ring_s", "attention_s", "expert_forward_s", "expert_backward_s", "head_forward_s", "head_backward_s", "send_s",
    "tensor_sent_s", "expert_sent_s",
)  # fmt: skip


def module_pieces(module: CountedModule, batch: Batch, layout: Layout, rates: Rates) -> Pieces:
    """Of every row."""
    layers, trained = module.blocks, float(module.trained_parameters)
    found: dict[str, Number] = {
        **dict.fromkeys(_NONE, 0.0),
        "stages": 1.0,
        "chunks": 1.0,
        "micro_batches": micro_batches(batch, layout),
        "schedule": layout.schedule,
        **dict.fromkeys(("layers_per_stage", "layers_last_stage", "layers"), float(layers)),
        **_passes(module, layout, rates),
        "host_micro_batch_s": rates.host_micro_batch_s,
        "host_step_s": rates.host_step_s,
        "gather_s": gather_weights_s(module.parameters / layers, held(layout, rates), layout, rates),
        "scatter_s": scatter_gradients_s(trained / layers, held(layout, rates), layout, rates),
        **once_per_step(trained, 0.0, float(layers), layout, rates),
    }
    return in_columns(found)


def _passes(module: CountedModule, layout: Layout, rates: Rates) -> dict[str, Number]:
    """Of one layer, on the device and on its host. Gradients are added up in memory, after each micro-batch."""
    forward_s = operators_s(module, layout.micro_batch, rates, backward=False) / module.blocks
    backward_s = operators_s(module, layout.micro_batch, rates, backward=True) / module.blocks
    added_s = module.trained_parameters / module.blocks * rates.accumulate_bytes / rates.memory_bytes_per_s
    host_s = host_forward_s(module, rates) / module.blocks
    again = np.where(layout.recompute == Recompute.FULL, 1.0, 0.0)
    return {
        "forward_s": forward_s,
        "backward_s": backward_s + added_s,
        "recompute_s": again * forward_s,
        "host_forward_s": host_s,
        "host_backward_s": host_s * (rates.host_backward + again),
    }


def with_measured_host(rates: Rates, machine: Machine) -> Rates:
    """Where a profile says what the host needs for an operator, a layer takes that for each of its operators."""
    measured = [figure.value for figure in (machine.dispatch_ns, machine.launch_ns) if figure is not None]
    return replace(rates, host_layer_s=OPERATORS_PER_LAYER * max(measured) / 1e9) if measured else rates
