"""Memory of a step of a user's own module at its peak: states as of any model, activations as they were counted."""

from dataclasses import replace
from math import prod

import numpy as np

from redline.model.counted_module import CountedModule
from redline.model.model import Number
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.memory.footprint import Footprint
from redline.planner.train.memory.states import DeviceParameters, states_of
from redline.planner.train.memory.use import BackwardPass, at_the_peak, gathered_bytes, gradients_stay
from redline.planner.train.stages import micro_batches
from redline.planner.train.step_cost import MemoryUse
from redline.planner.train.training_choices import Recompute


def module_memory(module: CountedModule, batch: Batch, layout: Layout, foot: Footprint) -> MemoryUse:
    """What is not trained has weights and no other states. There are logits where the user put the loss into the
    module; then stacks hold them in several forms for a moment, as those of any model.
    """
    many = micro_batches(batch, layout)
    weights = states_of(DeviceParameters(float(module.parameters), 0.0), layout, foot, many).weights
    trained = states_of(DeviceParameters(float(module.trained_parameters), 0.0), layout, foot, many)
    states = replace(trained, weights=weights, gradients=trained.gradients + trained.spare)
    kept, again = _activations(module, layout, foot)
    backward = BackwardPass(
        kept=kept,
        again=again,
        head=_logits(module) * foot.logit_bytes * layout.micro_batch / module.samples,
        gathers=gathered_bytes(module.parameters / module.blocks, layout, foot),
        has_gradients=gradients_stay(layout, foot, many),
    )
    return at_the_peak(states, backward, layout, foot)


def _activations(module: CountedModule, layout: Layout, foot: Footprint) -> tuple[Number, Number]:
    """All that is kept, without logits; or with recomputation what goes into blocks and what is kept outside them, and
    beside that the block that is computed again. Blocks that are hardly larger than what goes into them are kept.
    """
    every = module.kept_bytes - _logits(module) * module.number_bytes
    outside = every - module.blocks_kept_bytes + module.block_inputs_bytes
    pays = (np.asarray(layout.recompute) == Recompute.FULL) & (outside + module.largest_block_bytes < every)
    scale = foot.activation_bytes / module.number_bytes * layout.micro_batch / module.samples
    return np.where(pays, outside, every) * scale, np.where(pays, module.largest_block_bytes, 0) * scale


def _logits(module: CountedModule) -> int:
    """Numbers that the loss takes, of all samples of the example."""
    losses = [operator for operator in module.operators if operator.name == "_log_softmax" and not operator.backward]
    return sum(loss.calls * prod(loss.shapes[0]) for loss in losses)
