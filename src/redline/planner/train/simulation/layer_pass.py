"""What one pass through one layer consists of, as plain numbers: what it computes, sends, gathers and scatters."""

from typing import NamedTuple

from redline.planner.train.simulation.activity import EventKind
from redline.planner.train.simulation.schedule import Pass
from redline.planner.train.time.step_costs import WEIGHTS_HOST, StepCosts
from redline.planner.train.training_choices import PipelineSchedule


class LayerPass(NamedTuple):
    """Seconds. What is sent takes its turn after what is computed; gathers come before the pass, scatters after it."""

    parts: tuple[tuple[EventKind, float], ...]
    host_s: float
    gather_s: float = 0.0
    scatter_s: float = 0.0

    def times(self, weight: float) -> "LayerPass":
        """The same for several layers, without parts that take no time."""
        parts = tuple((activity, weight * seconds) for activity, seconds in self.parts if seconds > 0)
        return LayerPass(parts, weight * self.host_s, weight * self.gather_s, weight * self.scatter_s)


def layers_of_stage(costs: StepCosts[float], stage: int) -> float:
    """The last stage has what it is said to have. Of the others the first have one less, where not all are full."""
    if costs.stages <= 1:
        return costs.layers
    if stage == costs.stages - 1:
        return costs.layers_last_stage
    missing = (costs.stages - 1) * costs.layers_per_stage - (costs.layers - costs.layers_last_stage)
    return costs.layers_per_stage - (1 if stage < missing else 0)


def layers_of_chunks(costs: StepCosts[float], stage: int) -> list[float]:
    """Of every chunk of a stage. What the last stage lacks, its last chunk does, which has the head in its place; what
    another lacks, its first one does.
    """
    chunks = int(costs.chunks) if has_chunks(costs) else 1
    full, fewer = costs.layers_per_stage / chunks, costs.layers_per_stage - layers_of_stage(costs, stage)
    if costs.stages <= 1 or fewer > full:
        return [layers_of_stage(costs, stage) / chunks] * chunks
    layers = [full] * chunks
    layers[-1 if stage == costs.stages - 1 else 0] -= fewer
    return layers


def has_chunks(costs: StepCosts[float]) -> bool:
    return costs.chunks > 1 and costs.stages > 1


def puts_weights_off(costs: StepCosts[float]) -> bool:
    """Whether gradients of weights are computed in a pass of their own."""
    return costs.schedule == PipelineSchedule.ZERO_BUBBLE and costs.stages > 1 and not has_chunks(costs)


def layer_pass(costs: StepCosts[float], kind: Pass) -> LayerPass:
    if kind is Pass.FORWARD:
        return _forward(costs)
    apart = puts_weights_off(costs)
    if kind is Pass.BACKWARD:
        return _backward(costs, apart=apart)
    host_s = WEIGHTS_HOST * costs.host_backward_s if apart else 0.0
    return LayerPass(((EventKind.WEIGHTS, costs.weight_gradient_s),), host_s, 0.0, costs.scatter_s)


def _forward(costs: StepCosts[float]) -> LayerPass:
    parts = (
        (EventKind.FORWARD, costs.forward_s),
        (EventKind.CONTEXT, costs.context_forward_s),
        (EventKind.TENSOR, costs.tensor_forward_s),
        (EventKind.EXPERT, costs.expert_forward_s),
    )
    return LayerPass(parts, costs.host_forward_s, costs.gather_s)


def _backward(costs: StepCosts[float], *, apart: bool) -> LayerPass:
    later_s = costs.weight_gradient_s if apart else 0.0
    parts = (
        (EventKind.RECOMPUTE, costs.recompute_s),
        (EventKind.BACKWARD, costs.backward_s - later_s),
        (EventKind.EXPERT, costs.expert_backward_s),
        (EventKind.TENSOR, costs.tensor_backward_s),
        (EventKind.CONTEXT, costs.context_backward_s),
    )
    host_s = (1 - WEIGHTS_HOST if apart else 1.0) * costs.host_backward_s
    return LayerPass(parts, host_s, costs.gather_s, 0.0 if apart else costs.scatter_s)
