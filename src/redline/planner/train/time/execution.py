"""What compiling a model or replaying CUDA graphs changes of a stack's constants. Columns, one row per layout."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Number
from redline.planner.train.layout import Layout
from redline.planner.train.training_choices import Execution
from redline.planner.train.training_rates import Rates

# Kernels of the forward pass of a compiled layer: five matmuls, attention, and what fuses between them; and what
# Inductor's wrapper in Python needs to launch one.
KERNELS_PER_LAYER, LAUNCH_S = 14, 6e-6
# Passes over memory of fused layers: what is fitted to runs of compiled stacks (JAX, torchtitan and FSDP compiled).
HIDDEN_PASSES = 9.0
# A replayed graph is launched once, whatever is in it; what is left is between graphs.
GRAPH_LAYER_S, GRAPH_MICRO_BATCH_S, GRAPH_STEP_S = 1e-6, 50e-6, 2e-3


def executed(rates: Rates, layout: Layout) -> Rates:
    """The rates of a stack, with kernels launched as the layout says. Nothing becomes slower than usual."""
    if not np.any(layout.execution):
        return rates
    chosen = np.asarray(layout.execution)
    compiled, graphs = chosen >= Execution.COMPILED, chosen == Execution.GRAPHS
    layer_s = np.where(graphs, GRAPH_LAYER_S, KERNELS_PER_LAYER * LAUNCH_S)

    def at_most(usual: Number, limit: Number, where: NDArray[np.bool_]) -> Number:
        return np.where(where, np.minimum(usual, limit), usual)

    return replace(
        rates,
        host_layer_s=at_most(rates.host_layer_s, layer_s, compiled),
        hidden_passes=at_most(rates.hidden_passes, HIDDEN_PASSES, compiled),
        host_collective_s=at_most(rates.host_collective_s, GRAPH_LAYER_S, graphs),
        host_expert_s=at_most(rates.host_expert_s, GRAPH_LAYER_S, graphs),
        host_micro_batch_s=at_most(rates.host_micro_batch_s, GRAPH_MICRO_BATCH_S, graphs),
        host_step_s=at_most(rates.host_step_s, GRAPH_STEP_S, graphs),
        host_optimizer_s=at_most(rates.host_optimizer_s, GRAPH_LAYER_S, graphs),
    )
