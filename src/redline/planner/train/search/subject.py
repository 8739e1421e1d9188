"""What is planned: a model described by numbers, or a user's own module that was counted. What differs between them."""

import numpy as np

from redline.hardware.machine import Machine
from redline.model.counted import CountedModule
from redline.model.flops import Pairs, backward_flops, forward_flops
from redline.model.model import Model
from redline.model.parameters import active_parameters, count_parameters
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.memory.footprint import Footprint
from redline.planner.train.memory.module_memory import module_memory
from redline.planner.train.memory.runnable import Mask, runnable
from redline.planner.train.memory.use import memory_use
from redline.planner.train.outcome import MemoryUse
from redline.planner.train.rates import Rates
from redline.planner.train.search.space import Space, layouts, module_layouts
from redline.planner.train.stacks import DEFAULT_STACK
from redline.planner.train.time.module_pieces import module_pieces, with_measured_host
from redline.planner.train.time.operators import needed_flops
from redline.planner.train.time.pieces import Pieces, pieces

Subject = Model | CountedModule
# Plain PyTorch, which is what runs a module of one's own.
MODULE_STACK = "fsdp"


def usual_stack(subject: Subject) -> str:
    return MODULE_STACK if isinstance(subject, CountedModule) else DEFAULT_STACK


def pieces_of(subject: Subject, batch: Batch, layout: Layout, rates: Rates) -> Pieces:
    if isinstance(subject, CountedModule):
        return module_pieces(subject, batch, layout, rates)
    return pieces(subject, batch, layout, rates)


def memory_of(subject: Subject, batch: Batch, layout: Layout, foot: Footprint) -> MemoryUse:
    if isinstance(subject, CountedModule):
        return module_memory(subject, batch, layout, foot)
    return memory_use(subject, batch, layout, foot)


def layouts_of(subject: Subject, batch: Batch, space: Space) -> Layout:
    if isinstance(subject, CountedModule):
        return module_layouts(batch, space)
    return layouts(subject, batch, space)


def runnable_of(subject: Subject, batch: Batch, layout: Layout, foot: Footprint) -> Mask:
    """Nothing stands against data parallelism that its layouts did not heed already."""
    if isinstance(subject, CountedModule):
        return np.ones(np.shape(layout.dp), np.bool_)
    return runnable(subject, batch, layout, foot)


def rates_for(subject: Subject, rates: Rates, machine: Machine) -> Rates:
    """Host time of a layer was fitted to transformers; operators of a module are counted, so that they can be timed."""
    return with_measured_host(rates, machine) if isinstance(subject, CountedModule) else rates


def parameters_of(subject: Subject) -> tuple[int, int]:
    """All, and those that are active in each token."""
    if isinstance(subject, CountedModule):
        return subject.parameters, subject.parameters
    return int(count_parameters(subject).total), int(active_parameters(subject))


def flops_per_step(subject: Subject, batch: Batch) -> float:
    """What the model needs, whatever the layout: nothing computed twice, no pair of tokens that the mask hides."""
    if isinstance(subject, CountedModule):
        return float(needed_flops(subject) * batch.sequences)
    tokens = batch.sequence * batch.sequences
    forward = forward_flops(subject, tokens, batch.sequence, Pairs.SEEN).total
    backward = backward_flops(subject, tokens, batch.sequence, Pairs.SEEN, flash=0).total
    return float(forward + backward)
