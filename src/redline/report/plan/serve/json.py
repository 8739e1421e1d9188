"""A plan of serving as JSON for machines; docs/reference/plan.md describes every field."""

from typing import Any

from redline.artifacts import Envelope
from redline.plan.serve.measured_engine import MeasuredEngine
from redline.plan.serve.serving_plan import ServingPlan, ServingPoint
from redline.report.data import json_text
from redline.report.plan.json_values import plain

KIND = "serving-plan"
SCHEMA_VERSION = 1
_PLAIN = (
    "parameters", "active_parameters", "device_bytes", "engine", "measured_here", "situation", "cache_dtype", "prompt",
    "output", "devices", "price", "most_ttft_s", "most_tpot_s", "evidence", "repeats",
)  # fmt: skip


def render(plan: ServingPlan) -> str:
    return json_text(as_record(plan))


def as_record(plan: ServingPlan) -> dict[str, Any]:
    # Synthetic: everything in a plan is predicted, nothing measured.
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline plan serve", synthetic=True)
    return {
        **envelope.to_dict(),
        "model": plan.model.name,
        "machine": plan.machine.name,
        **{name: plain(getattr(plan, name)) for name in _PLAIN},
        "measured": _measured(plan.measured),
        "best": None if plan.best is None else _point(plan, plan.best),
        "frontier": [_point(plan, point) for point in plan.frontier],
        "points": [_point(plan, point) for point in plan.points],
        "refused": [{"tp": tp, "dtype": dtype, "weights_bytes": plain(size)} for tp, dtype, size in plan.refused],
    }


def _measured(engine: MeasuredEngine | None) -> dict[str, Any] | None:
    if engine is None:
        return None
    step = engine.step
    names = ("steps", "batch", "context", "model_s", "around_s", "peak_share")
    told = {name: plain(getattr(step, name)) for name in names}
    return {"model": step.model.name, **told, "roof_s": plain(engine.roof_s)}


def _point(plan: ServingPlan, serving_point: ServingPoint) -> dict[str, Any]:
    parts = ("compute_s", "memory_s", "communication_s", "overhead_s")
    return {
        **plain(serving_point),
        "step_s": dict(zip(parts, plain(serving_point.step_s), strict=True)),
        "prompt_s": dict(zip(parts, plain(serving_point.prompt_s), strict=True)),
        "tokens_per_s_device": plain(serving_point.tokens_per_s_device),
        "tokens_per_s_user": plain(serving_point.tokens_per_s_user),
        "cost_per_million": plain(plan.cost_per_million(serving_point)),
        "limit": serving_point.step_limit.name.lower(),
    }
