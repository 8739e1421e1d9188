"""What a person reasons with: the compute that each kind of traffic could hide behind, and what stays exposed."""

from dataclasses import dataclass

from redline.planner.train.step_cost import StepTime
from redline.planner.train.time.step_costs import StepCosts


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """One condition: traffic is hidden where compute, at the same time, takes at least as long."""

    kind: str
    """data, gather, tensor, context, expert or pipeline."""
    compute_s: float
    """What could hide it, per occurrence."""
    traffic_s: float
    """Per occurrence."""
    exposed_s: float
    """Of the whole step."""

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
    kinds = (
        ("data", costs.layers_per_stage * backward_s, costs.reduce_s + costs.broadcast_s, time.reduce_s),
        ("gather", forward_s, costs.gather_s, time.gather_s),
        ("tensor", forward_s, costs.tensor_sent_s, time.tensor_s),
        ("context", costs.attention_s, costs.ring_s, time.context_s),
        ("expert", forward_s, costs.expert_sent_s, time.expert_s),
        ("pipeline", costs.layers_per_stage / costs.chunks * forward_s, costs.send_s, time.pipeline_s),
    )
    return tuple(
        Overlap(kind=kind, compute_s=float(compute), traffic_s=float(traffic), exposed_s=float(exposed))
        for kind, compute, traffic, exposed in kinds
        if traffic > 0
    )
