"""The plan of a training job as JSON for machines; docs/reference/plan.md describes every field."""

from collections.abc import Sequence
from typing import Any

from redline.artifacts import Envelope
from redline.plan.job.job_cost import JobCost
from redline.plan.train.layout import Layout
from redline.plan.train.measured import STEP, FittedJob
from redline.plan.train.search.search import Alternative, Change
from redline.plan.train.search.training_plan import Candidate, TrainingPlan
from redline.plan.train.time.step import Overlap
from redline.plan.train.training_choices import PipelineSchedule, Recompute
from redline.report.data import json_text
from redline.report.plan.json_values import plain

KIND = "training-plan"
SCHEMA_VERSION = 2


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
        "ranked": [_candidate(candidate) for candidate in plan.ranked],
        "frontier": [_candidate(candidate) for candidate in plan.frontier],
        "overlaps": [_overlap(overlap) for overlap in plan.overlaps],
        "alternatives": [_with_layout(alternative) for alternative in plan.alternatives],
        "changes": [_with_layout(change) for change in plan.changes],
        "evidence": plain(plan.evidence),
        "measured": None if plan.measured is None else _measured(plan.measured),
        "sizes": [
            {"devices": training_plan.devices, "fits": training_plan.fits, "best": _candidate(training_plan.best)}
            for training_plan in sizes
        ],
        "job": None if job is None else _job(job),
    }


_PLAIN = (
    "parameters", "active_parameters", "flops_per_step", "dtype", "stack", "devices", "devices_per_node",
    "device_bytes", "by", "accepted_chance", "considered", "fitting",
)  # fmt: skip


def _measured(fitted: FittedJob) -> dict[str, Any]:
    measured = fitted.measured
    return {
        "source": measured.source,
        "steps": measured.steps,
        "devices": measured.devices,
        "sequences": plain(measured.batch.sequences),
        "sequence": plain(measured.batch.sequence),
        "layout": _layout(measured.layout),
        "step_s": plain(measured.step_s),
        "accounts": {
            name: {
                "measured_s": plain(measured.accounts.get(name)),
                "before_s": plain(before_s),
                "after_s": plain(fitted.after[name]),
            }
            for name, before_s in fitted.before.items()
            if name != STEP
        },
        "before_s": plain(fitted.before[STEP]),
        "after_s": plain(fitted.after[STEP]),
        "constants": plain(fitted.moved),
        "inferred": list(measured.inferred),
        "unseen": list(measured.unseen),
        "accuracy": plain(fitted.accuracy),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {**plain(candidate), "layout": _layout(candidate.layout)}


def _layout(layout: Layout) -> dict[str, Any]:
    """Choices by name, not by number."""
    names = {
        "schedule": PipelineSchedule(int(layout.schedule)).name.lower(),
        "recompute": Recompute(int(layout.recompute)).name.lower(),
    }
    return {**plain(layout), **names}


def _overlap(overlap: Overlap) -> dict[str, Any]:
    return {**plain(overlap), "ratio": plain(overlap.ratio), "hidden": overlap.is_hidden}


def _with_layout(other: Alternative | Change) -> dict[str, Any]:
    return {**plain(other), "layout": _layout(other.layout)}


def _job(cost: JobCost) -> dict[str, Any]:
    derived = ("ideal_days", "days", "device_hours", "money", "energy_wh")
    cases = [
        {
            "failures": case.rate.id,
            "recovery": case.recovery.id,
            "restart_s": plain(case.recovery.restart_s),
            "checkpoint_s": plain(case.recovery.checkpoint_s),
            "in_band": case.in_band,
            "mean_time_between_failures_s": plain(case.mean_time_between_failures_s),
            "interval_s": plain(case.interval_s),
            "goodput": plain(case.goodput),
            "time_s": plain(case.time_s),
        }
        for case in cost.cases
    ]
    return {
        "tokens": plain(cost.job.tokens),
        "steps": cost.job.steps,
        "goodput": plain(cost.goodput),
        **{name: plain(getattr(cost, name)) for name in derived},
        "cases": cases,
    }
