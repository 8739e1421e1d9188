"""A measured step of a training job: its layout and batch, its time, and its accounts where they were recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from redline.model.model import Column, Model
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.step_cost import StepTime
from redline.planner.train.time.layer import head_forward_s, layer_times
from redline.planner.train.time.step_costs import StepCosts, step_costs
from redline.planner.train.trained import frozen
from redline.planner.train.training_choices import PipelineSchedule, Recompute
from redline.planner.train.training_rates import Rates

STEP = "step"
COMPUTE, OPTIMIZER, HOST, EXPOSED, WAITING = "compute", "optimizer", "host", "communication", "waiting"
ACCOUNTS = (COMPUTE, OPTIMIZER, HOST, EXPOSED, WAITING)
TRAFFIC, MATMULS, ATTENTION = "traffic", "matmuls", "attention"
"""All communication, hidden or not; products of matrices; attention. They are parts of accounts, or beside them."""
PARTS = (TRAFFIC, MATMULS, ATTENTION)


@dataclass(frozen=True, kw_only=True)
class MeasuredTraining:
    """One step of a job that ran."""

    batch: Batch
    layout: Layout
    devices: int
    step_s: float
    accounts: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the step by ACCOUNTS and PARTS, as far as they are known; none where the step alone is."""
    memory_bytes: float = 0.0
    """Peak on the fullest device; 0 where it is not known."""
    source: str = ""
    """The recording; "" where numbers were given."""
    steps: int = 1
    """That were recorded; times are means over them."""
    inferred: tuple[str, ...] = ()
    """What was read from the recording instead of being given."""
    unseen: tuple[str, ...] = ()
    """What the recording cannot tell, and why, in a few words each."""


def predicted_accounts(time: StepTime, costs: StepCosts[Column]) -> dict[str, Column]:
    """The same of predicted steps, with the traffic of data parallelism and tensor parallelism as a whole."""
    return {
        COMPUTE: time.compute_s + time.recompute_s + time.head_s,
        OPTIMIZER: time.optimizer_s + time.offload_s,
        HOST: time.host_s,
        EXPOSED: time.tensor_s + time.context_s + time.expert_s + time.pipeline_s + time.gather_s + time.reduce_s,
        WAITING: time.bubble_s,
        TRAFFIC: _traffic_s(costs),
    }


def predicted_kernels(model: Model, batch: Batch, layout: Layout, rates: Rates) -> dict[str, Column]:
    """Products of matrices and attention of a step, on the fullest stage, with what is computed again."""
    costs, times = step_costs(model, batch, layout, rates), layer_times(model, batch, layout, rates)
    logits_s = head_forward_s(model, batch, layout, replace(rates, logit_passes=0.0))
    full = np.where(layout.recompute == Recompute.FULL, 1.0, 0.0)
    again = np.where(layout.recompute == Recompute.NONE, 0.0, 1.0)
    passes, products = costs.micro_batches * costs.layers_per_stage, 3.0 - frozen(layout)
    attention_s = passes * ((1 + again) * times.attention_s + times.attention_backward_s)
    matmuls_s = passes * (products + full) * times.matmuls_s + costs.micro_batches * products * logits_s
    return {MATMULS: matmuls_s, ATTENTION: attention_s}


def _traffic_s(costs: StepCosts[Column]) -> Column:
    """Of the fullest stage, hidden or not: forward and backward alike, weights gathered twice in each micro-batch."""
    passes = costs.micro_batches * costs.layers_per_stage
    inside = 2 * (costs.tensor_sent_s + costs.ring_s + costs.expert_sent_s) + 2 * costs.gather_s + costs.scatter_s
    chunks = np.where(costs.schedule == PipelineSchedule.ONE_F_ONE_B, costs.chunks, 1.0)
    sends = np.where(costs.stages > 1, 2 * costs.micro_batches * chunks, 0.0)
    traffic: Column = passes * inside + sends * costs.send_s + costs.reduce_s + costs.broadcast_s
    return traffic
