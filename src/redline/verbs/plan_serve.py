"""`redline plan serve`: what serving a model gives its users, by size, format and load, and how sure that is."""

from __future__ import annotations

from redline.planner.serve.engines import engine_names
from redline.planner.serve.plan import ServingRequest
from redline.planner.serve.plan import plan_serving as plan_with
from redline.planner.serve.planned import ServingEvidence, ServingPlan
from redline.planner.validation.serving_accuracy import held_out_of, serving_accuracy

__all__ = ["ServingPlan", "ServingRequest", "engine_names", "plan_serving"]


def plan_serving(request: ServingRequest) -> ServingPlan:
    """All ways to serve, the best of them, and how well figures of this engine were predicted."""
    found = held_out_of(serving_accuracy())
    evidence = [
        ServingEvidence(metric=metric, rows=one.rows, median=one.median, p90=one.p90)
        for (engine, metric), one in found.items()
        if engine == request.engine
    ]
    return plan_with(request, evidence)
