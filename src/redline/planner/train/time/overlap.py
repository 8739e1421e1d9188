"""What a person reasons with: the compute that each kind of traffic could hide behind, and what stays exposed."""

from dataclasses import dataclass

from redline.planner.train.step_cost import StepTime
from redline.planner.train.time.layer import ATTENTION_BACKWARD
from redline.planner.train.time.step_costs import StepCosts

# Ring attention sends keys and values once forward; backward these and their gradients.
RINGS = 3


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """One condition: traffic is hidden where compute, at the same time, takes at least as long. All of one step, on the
    slowest stage.
    """

    kind: str
    """data, gather, tensor, context, expert or pipeline."""
    compute_s: float
    """What could hide it."""
    traffic_s: float
    exposed_s: float

    @property
    def ratio(self) -> float:
        """Compute per traffic: 1 or more can hide it all."""
        return self.compute_s / self.traffic_s

    @property
    def is_hidden(self) -> bool:
        # Less than a thousandth of what there is to hide: the first or last piece, which nothing can hide.
        return self.exposed_s <= 1e-3 * self.traffic_s


def overlaps(costs: StepCosts[float], time: StepTime) -> tuple[Overlap, ...]:
    """Of one layout: both values have plain numbers in the place of columns. Only traffic that there is."""
    forward_s = max(costs.forward_s, costs.host_forward_s)
    backward_s = max(costs.backward_s + costs.recompute_s, costs.host_backward_s)
    times = costs.micro_batches * costs.layers_per_stage
    passes_s = times * (forward_s + backward_s)
    tensor_s = times * costs.tensor_sent_s * _both_ways(costs.tensor_forward_s, costs.tensor_backward_s)
    expert_s = times * costs.expert_sent_s * _both_ways(costs.expert_forward_s, costs.expert_backward_s)
    kinds = (
        ("data", costs.layers_per_stage * backward_s, costs.reduce_s + costs.broadcast_s, time.reduce_s),
        ("gather", passes_s, times * (2 * costs.gather_s + costs.scatter_s), time.gather_s),
        ("tensor", passes_s, tensor_s, time.tensor_s),
        ("context", times * (1 + ATTENTION_BACKWARD) * costs.attention_s, times * RINGS * costs.ring_s, time.context_s),
        ("expert", passes_s, expert_s, time.expert_s),
        ("pipeline", passes_s, 2 * costs.micro_batches * costs.chunks * costs.send_s, time.pipeline_s),
    )
    return tuple(
        Overlap(kind=kind, compute_s=float(compute), traffic_s=float(traffic), exposed_s=float(exposed))
        for kind, compute, traffic, exposed in kinds
        if traffic > 0
    )


def _both_ways(forward_s: float, backward_s: float) -> float:
    """How often a step sends what a forward pass sends; where all of it hides, a backward pass sends as much."""
    return 1 + (backward_s / forward_s if forward_s > 0 else 1.0)
