"""The plan of a training job as a document and as JSON; docs/reference/plan.md describes every field."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from redline.plan.job import JobCost
from redline.plan.train.layout import Layout
from redline.plan.train.measured import STEP, FittedJob
from redline.plan.train.search.plan import Candidate, TrainingPlan
from redline.plan.train.search.search import Alternative, Change
from redline.plan.train.time.step import Overlap
from redline.plan.train.training_choices import PipelineSchedule, Recompute
from redline.report.data import enveloped
from redline.report.display import Style, styled
from redline.report.document import Block, Document, Heading, Items, LabelledLines
from redline.report.language import _, sentences
from redline.report.plan.amounts import figures, parameters, plain
from redline.report.plan.train import job as say_job
from redline.report.plan.train import measured_messages as say_measured
from redline.report.plan.train import tables
from redline.report.plan.train import training_messages as say
from redline.report.terminal import width_of

KIND = "training-plan"
SCHEMA_VERSION = 2
_LABEL_WIDTH = 12


def document_of(
    plan: TrainingPlan,
    job: JobCost | None = None,
    sizes: Sequence[TrainingPlan] = (),
    refused: Sequence[tuple[int, str]] = (),
) -> Document:
    """The answer first, then what it is made of and how sure it is; above it all sizes, where several were asked for.

    `job` is what all steps together take.
    """
    return Document(
        blocks=(
            *([tables.sizes(sizes, refused, plan)] if len(sizes) + len(refused) > 1 else []),
            _first(plan),
            *([] if plan.measured is None else [say_measured.accounts(plan.measured)]),
            tables.step_bars(plan),
            tables.overlaps(plan),
            tables.memory_bars(plan),
            tables.ranked(plan, brief=True),
            tables.alternatives(plan, brief=True),
            Items(title=_("what a better machine would change"), items=say.changes(plan), mark="  - "),
            *([] if job is None else [_whole_job(plan, job)]),
            _trust(plan),
        )
    )


def brief_of(plan: TrainingPlan, job: JobCost | None) -> Document:
    """The first things, for a notebook."""
    said = (*_first(plan), tables.step_bars(plan), tables.memory_bars(plan), tables.ranked(plan, brief=True))
    return Document(blocks=(*said, *([] if job is None else [_whole_job(plan, job)[0]]), _trust(plan)))


def _first(plan: TrainingPlan) -> tuple[Block, ...]:
    label, style = (_("best"), Style.GOOD) if plan.fits else (_("verdict"), Style.LIMIT)
    verdict = sentences([styled(say.verdict(plan), style), *say.advice(plan)])
    lines = ((label, verdict), *facts(plan))
    return Heading(text=say.headline(plan)), LabelledLines(lines=lines, width=_LABEL_WIDTH)


def facts(plan: TrainingPlan) -> Iterator[tuple[str, str]]:
    yield _("errors"), say.known(plan)
    yield _("model"), parameters(plan.parameters, plan.active_parameters)
    yield _("machine"), say.machine(plan)
    yield _("batch"), say.batch(plan)
    if plan.measured is not None:
        yield _("measured"), say_measured.fact(plan.measured)
    yield _("step"), say.step(plan, plan.best)
    yield _("speed"), say.speed(plan, plan.best)
    yield say.memory_name(plan), say.memory(plan, plan.best)
    if plan.safer is not None:
        yield _("safer"), say.safer(plan, plan.safer)
    yield _("searched"), say.searched(plan)


def _whole_job(plan: TrainingPlan, job: JobCost) -> tuple[Block, ...]:
    cases, lines = say_job.cases(job, unit=plan.unit, brief=True), tuple(say_job.facts(job))
    width = max(width_of(label) for label, _text in lines) + 2
    first = LabelledLines(title=cases.title, lines=lines, width=width, indent="  ")
    return first, replace(cases, title="", indent="  ")


def _trust(plan: TrainingPlan) -> Items:
    return Items(title=_("how far to trust this"), items=tuple(say.trust(plan)), mark="  - ")


# --- JSON -------------------------------------------------------------------------------------------------------------


def record_of(plan: TrainingPlan, job: JobCost | None = None, sizes: Sequence[TrainingPlan] = ()) -> dict[str, Any]:
    """`sizes` are the plans for all numbers of devices that were asked for."""
    record = {
        "model": plan.workload.name,
        **figures(plan, "parameters active_parameters flops_per_step dtype stack devices devices_per_node"),
        **figures(plan, "device_bytes by accepted_chance considered fitting"),
        "machine": plan.machine.name,
        "fits": plan.fits,
        **figures(plan.batch, "sequence sequences"),
        **figures(plan, "unit tokens_per_step"),
        "best": _with_layout(plan.best),
        "safer": None if plan.safer is None else _with_layout(plan.safer),
        "ranked": list(map(_with_layout, plan.ranked)),
        "frontier": list(map(_with_layout, plan.frontier)),
        "overlaps": list(map(_overlap, plan.overlaps)),
        "alternatives": list(map(_with_layout, plan.alternatives)),
        "changes": list(map(_with_layout, plan.changes)),
        "evidence": plain(plan.evidence),
        "measured": None if plan.measured is None else _measured(plan.measured),
        "sizes": [{"devices": size.devices, "fits": size.fits, "best": _with_layout(size.best)} for size in sizes],
        "job": None if job is None else _job(job),
    }
    # Synthetic: everything in a plan is predicted, nothing measured.
    return enveloped(KIND, SCHEMA_VERSION, "redline plan train", record, synthetic=True)


def _measured(fitted: FittedJob) -> dict[str, Any]:
    measured = fitted.measured
    return {
        **figures(measured, "source steps devices"),
        **figures(measured.batch, "sequences sequence"),
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
        **figures(measured, "inferred unseen"),
        "accuracy": plain(fitted.accuracy),
    }


def _with_layout(other: Candidate | Alternative | Change) -> dict[str, Any]:
    return {**plain(other), "layout": _layout(other.layout)}


def _layout(layout: Layout) -> dict[str, Any]:
    """Choices by name, not by number."""
    names = {
        "schedule": PipelineSchedule(int(layout.schedule)).name.lower(),
        "recompute": Recompute(int(layout.recompute)).name.lower(),
    }
    return {**plain(layout), **names}


def _overlap(overlap: Overlap) -> dict[str, Any]:
    return {**plain(overlap), "ratio": plain(overlap.ratio), "hidden": overlap.is_hidden}


def _job(cost: JobCost) -> dict[str, Any]:
    cases = [
        {
            "failures": case.rate.id,
            "recovery": case.recovery.id,
            **figures(case.recovery, "restart_s checkpoint_s"),
            **figures(case, "in_band mean_time_between_failures_s interval_s goodput time_s"),
        }
        for case in cost.cases
    ]
    return {
        **figures(cost.job, "tokens steps"),
        **figures(cost, "goodput ideal_days days device_hours money energy_wh"),
        "cases": cases,
    }
