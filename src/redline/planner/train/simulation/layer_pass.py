"""What one pass through one layer consists of, as plain numbers: what it computes, sends, gathers and scatters."""

from typing import NamedTuple

from redline.planner.train.layout import Schedule
from redline.planner.train.simulation.activity import Activity
from redline.planner.train.simulation.plain import PlainPieces
from redline.planner.train.simulation.schedule import Pass


class LayerPass(NamedTuple):
    """Seconds. What is sent takes its turn after what is computed; gathers come before the pass, scatters after it."""

    parts: tuple[tuple[Activity, float], ...]
    host_s: float
    gather_s: float = 0.0
    scatter_s: float = 0.0

    def times(self, weight: float) -> "LayerPass":
        """The same for several layers, without parts that take no time."""
        parts = tuple((activity, weight * seconds) for activity, seconds in self.parts if seconds > 0)
        return LayerPass(parts, weight * self.host_s, weight * self.gather_s, weight * self.scatter_s)


def layers_of_stage(pieces: PlainPieces, stage: int) -> float:
    """The last stage has what it is said to have. Of the others the first have one less, where not all are full."""
    if pieces.stages <= 1:
        return pieces.layers
    if stage == pieces.stages - 1:
        return pieces.layers_last_stage
    missing = (pieces.stages - 1) * pieces.layers_per_stage - (pieces.layers - pieces.layers_last_stage)
    return pieces.layers_per_stage - (1 if stage < missing else 0)


def layers_of_chunks(pieces: PlainPieces, stage: int) -> list[float]:
    """Of every chunk of a stage. What the last stage lacks, its last chunk does, which has the head in its place; what
    another lacks, its first one does.
    """
    chunks = int(pieces.chunks) if has_chunks(pieces) else 1
    full, fewer = pieces.layers_per_stage / chunks, pieces.layers_per_stage - layers_of_stage(pieces, stage)
    if pieces.stages <= 1 or fewer > full:
        return [layers_of_stage(pieces, stage) / chunks] * chunks
    layers = [full] * chunks
    layers[-1 if stage == pieces.stages - 1 else 0] -= fewer
    return layers


def has_chunks(pieces: PlainPieces) -> bool:
    return pieces.chunks > 1 and pieces.stages > 1


def puts_weights_off(pieces: PlainPieces) -> bool:
    """Whether gradients of weights are computed in a pass of their own."""
    return pieces.schedule == Schedule.ZERO_BUBBLE and pieces.stages > 1 and not has_chunks(pieces)


def layer_pass(pieces: PlainPieces, kind: Pass) -> LayerPass:
    if kind is Pass.FORWARD:
        return _forward(pieces)
    apart = puts_weights_off(pieces)
    if kind is Pass.BACKWARD:
        return _backward(pieces, apart=apart)
    return LayerPass(((Activity.WEIGHTS, pieces.weight_gradient_s),), 0.0, 0.0, pieces.scatter_s)


def _forward(pieces: PlainPieces) -> LayerPass:
    parts = (
        (Activity.FORWARD, pieces.forward_s),
        (Activity.CONTEXT, pieces.context_forward_s),
        (Activity.TENSOR, pieces.tensor_forward_s),
        (Activity.EXPERT, pieces.expert_forward_s),
    )
    return LayerPass(parts, pieces.host_forward_s, pieces.gather_s)


def _backward(pieces: PlainPieces, *, apart: bool) -> LayerPass:
    later_s = pieces.weight_gradient_s if apart else 0.0
    parts = (
        (Activity.RECOMPUTE, pieces.recompute_s),
        (Activity.BACKWARD, pieces.backward_s - later_s),
        (Activity.EXPERT, pieces.expert_backward_s),
        (Activity.TENSOR, pieces.tensor_backward_s),
        (Activity.CONTEXT, pieces.context_backward_s),
    )
    host_s = max(pieces.host_backward_s - later_s, 0.0)
    return LayerPass(parts, host_s, pieces.gather_s, 0.0 if apart else pieces.scatter_s)
