"""Layouts that no amount of memory makes run: what does not divide, stages with nothing to do, schedules without enough
micro-batches.
"""

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Model, Number
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.memory.footprint import Footprint
from redline.planner.train.stages import head_layers, micro_batches

Mask = NDArray[np.bool_]
# Blocks after the last layer that a stage may consist of: norm with head, conversion of logits, loss.
TAIL_BLOCKS = 3


def runnable(model: Model, batch: Batch, layout: Layout, foot: Footprint) -> Mask:
    """True where every rule holds."""
    rules = (
        np.asarray(model.heads % layout.tp == 0),
        np.asarray((model.kv_heads % layout.tp == 0) | (layout.tp % model.kv_heads == 0)),
        np.asarray(layout.dp * layout.micro_batch <= batch.sequences),
        _enough_micro_batches(batch, layout, foot),
        every_stage_works(model, layout, foot.head_weighs),
    )
    held: Mask = np.logical_and.reduce(np.broadcast_arrays(*rules))
    return held


def _enough_micro_batches(batch: Batch, layout: Layout, foot: Footprint) -> Mask:
    """Some stacks refuse a 1F1B schedule whose warm-up has fewer micro-batches than stages before the last."""
    refused = (np.asarray(foot.least_micro_batches) > 0) & (micro_batches(batch, layout) < layout.pp - 1)
    return np.asarray(~refused)


def every_stage_works(model: Model, layout: Layout, head_weighs: Number) -> Mask:
    """Cut by layers: not more stages than layers. Cut by FLOPs, a stage ends with the block that exceeds its share, and
    a block ends at most one stage. The layers end as many stages as there are shares below them, at most one per
    layer; the blocks of the tail are then spread over what is left, and stages beyond stay empty.
    """
    pp = np.asarray(layout.pp, np.float64)
    share = (model.layers + head_layers(model)) / pp
    ended = np.minimum(model.layers, np.ceil(model.layers / share) - 1)
    weighed = (pp == 1) | (pp <= ended + TAIL_BLOCKS)
    works: Mask = np.where(np.asarray(head_weighs) > 0, weighed, pp <= model.layers)
    return works
