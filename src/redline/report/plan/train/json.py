"""The plan of a training job as JSON for machines; docs/reference/plan.md describes every field."""

from collections.abc import Sequence
from typing import Any

from redline.artifacts import Envelope
from redline.planner.job.job_cost import JobCost
from redline.planner.train.layout import Layout
from redline.planner.train.search.alternatives import Alternative, Change
from redline.planner.train.search.training_plan import Candidate, TrainingPlan
from redline.planner.train.time.overlap import Overlap
from redline.planner.train.training_choices import PipelineSchedule, Recompute
from redline.report.json_text import json_text
from redline.report.plan.json_values import plain

KIND = "training-plan"
SCHEMA_VERSION = 1


def render(plan: TrainingPlan, job: JobCost | None = None, sizes: Sequence[TrainingPlan] = ()) -> str:
    """`sizes` are the plans for all numbers of devices that were asked for."""
    return json_text(as_record(plan, job, sizes))


def as_record(plan: TrainingPlan, job: JobCost | None = None, sizes: Sequence[TrainingPlan] = ()) -> dict[str, Any]:
    # Synthetic: everything in a plan is predicted, nothing measured.
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline plan train", synthetic=True)
    return {
        **envelope.to_dict(),
        "model": plan.workload.name,
        **{name: plain(getattr(plan, name)) for name in _PLAIN},
        "machine": plan.machine.name,
        "fits": plan.fits,
        "sequence": plain(plan.batch.sequence),
        "sequences": plain(plan.batch.sequences),
        "unit": plan.unit,
        "tokens_per_step": plain(plan.tokens_per_step),
        "best": _candidate(plan.best),
        "safer": None if plan.safer is None else _candidate(plan.safer),
        "ranked": [_candidate(one) for one in plan.ranked],
        "frontier": [_candidate(one) for one in plan.frontier],
        "overlaps": [_overlap(one) for one in plan.overlaps],
        "alternatives": [_with_layout(one) for one in plan.alternatives],
        "changes": [_with_layout(one) for one in plan.changes],
        "evidence": plain(plan.evidence),
        "sizes": [{"devices": one.devices, "fits": one.fits, "best": _candidate(one.best)} for one in sizes],
        "job": None if job is None else _job(job),
    }


_PLAIN = (
    "parameters", "active_parameters", "flops_per_step", "dtype", "stack", "devices", "devices_per_node",
    "device_bytes", "by", "accepted_chance", "considered", "fitting",
)  # fmt: skip


def _candidate(one: Candidate) -> dict[str, Any]:
    return {**plain(one), "layout": _layout(one.layout)}


def _layout(layout: Layout) -> dict[str, Any]:
    """Choices by name, not by number."""
    names = {
        "schedule": PipelineSchedule(int(layout.schedule)).name.lower(),
        "recompute": Recompute(int(layout.recompute)).name.lower(),
    }
    return {**plain(layout), **names}


def _overlap(one: Overlap) -> dict[str, Any]:
    return {**plain(one), "ratio": plain(one.ratio), "hidden": one.is_hidden}


def _with_layout(one: Alternative | Change) -> dict[str, Any]:
    return {**plain(one), "layout": _layout(one.layout)}


def _job(cost: JobCost) -> dict[str, Any]:
    derived = ("ideal_days", "days", "device_hours", "money", "energy_wh")
    cases = [
        {
            "failures": one.rate.id,
            "recovery": one.recovery.id,
            "restart_s": plain(one.recovery.restart_s),
            "checkpoint_s": plain(one.recovery.checkpoint_s),
            "in_band": one.in_band,
            "mean_time_between_failures_s": plain(one.mean_time_between_failures_s),
            "interval_s": plain(one.interval_s),
            "goodput": plain(one.goodput),
            "time_s": plain(one.time_s),
        }
        for one in cost.cases
    ]
    return {
        "tokens": plain(cost.job.tokens),
        "steps": cost.job.steps,
        "goodput": plain(cost.goodput),
        **{name: plain(getattr(cost, name)) for name in derived},
        "cases": cases,
    }
