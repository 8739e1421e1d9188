"""The plan of a training job as a document, as a page and as JSON; docs/reference/plan.md describes every field."""

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
from redline.report.document import (
    Block,
    Chart,
    Document,
    Fact,
    Heading,
    Items,
    LabelledLines,
    PageBlock,
    PageDocument,
    Section,
    TemplateDrawing,
    capital,
    named,
)
from redline.report.language import _, marked, sentences
from redline.report.plan import layouts
from redline.report.plan.amounts import (
    active,
    chance,
    count,
    digits,
    figures,
    gigabytes,
    parameters,
    plain,
    seconds,
    share,
)
from redline.report.plan.train import job as say_job
from redline.report.plan.train import tables
from redline.report.plan.train import training_messages as say
from redline.report.terminal import width_of
from redline.report.text_parts import interval

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
            *([] if plan.measured is None else [say.measured_accounts(plan.measured)]),
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
        yield _("measured"), say.measured_fact(plan.measured)
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


# --- the page ---------------------------------------------------------------------------------------------------------


def page_of(plan: TrainingPlan, job: JobCost | None = None, sizes: Sequence[TrainingPlan] = ()) -> PageDocument:
    """`sizes` are the plans for all numbers of GPUs that were asked for."""
    words = {
        "memory": _("memory at the peak, GB per GPU"),
        "best": _("best"),
        "frontier": _("Pareto frontier of step time and memory"),
        "others": _("other good layouts"),
        "speed": say.per_second_and_gpu(plan),
    }
    return PageDocument(
        title=say.headline(plan),
        headline=_headline(plan),
        said=(sentences([say.headline(plan), *say.advice(plan)]), ""),
        caution=_("Predicted, not measured."),
        facts=tuple(_facts(plan, job)),
        sections=tuple(_sections(plan, job, sizes)),
        drawers=("plan_charts.js",),
        words=words,
    )


def _sections(plan: TrainingPlan, job: JobCost | None, sizes: Sequence[TrainingPlan]) -> Iterator[Section]:
    bars = {"step": tables.step_bars(plan), "memory": tables.memory_bars(plan)}
    drawn = TemplateDrawing(template="plan_bars.html.j2", values=bars)
    yield Section(name="step", link=capital(_("step")), blocks=(drawn,), style="first even")
    by_size = tables.sizes(sizes, (), plan) if len(sizes) > 1 else None
    accounts = None if plan.measured is None else say.measured_accounts(plan.measured)
    ranked = named("ranked", tables.ranked(plan, brief=False))
    shown: tuple[tuple[str, str, tuple[PageBlock, ...]], ...] = (
        ("sizes", _("GPUs"), named("sizes", by_size)),
        ("measured", _("measured"), named("measured", accounts)),
        ("traffic", _("communication"), named("overlaps", tables.overlaps(plan))),
        ("layouts", _("layouts"), (*_chart(plan), *ranked) if ranked else ()),
        ("others", _("Why not other layouts"), _others(plan)),
        ("job", _("whole job"), _job_blocks(plan, job)),
        ("trust", _("how far to trust this"), (Items(items=tuple(say.trust(plan))),)),
        ("about", _("What was planned"), (LabelledLines(lines=tuple(facts(plan))),)),
    )
    for name, title, blocks in shown:
        yield Section(name=name, link=capital(title), title=capital(title), blocks=blocks)
    terms = tuple((_(term), _(text)) for term, text in DEFINITIONS)
    yield Section(name="definitions", title=_("How each number is defined"), blocks=(LabelledLines(lines=terms),))


def _chart(plan: TrainingPlan) -> tuple[Chart, ...]:
    figure = frontier_figure(plan)
    about = _("Speed against memory. Error bars are the intervals of both.")
    return () if figure is None else (Chart(name="frontier", data=figure, about=about),)


def _others(plan: TrainingPlan) -> tuple[PageBlock, ...]:
    table = named("alternatives", tables.alternatives(plan, brief=False))
    if not table:
        return ()
    changes = say.changes(plan)
    better = (Items(title=capital(_("what a better machine would change")), items=changes),) if changes else ()
    return (*table, *better)


def _job_blocks(plan: TrainingPlan, job: JobCost | None) -> tuple[PageBlock, ...]:
    if job is None:
        return ()
    cases = say_job.cases(job, unit=plan.unit, brief=False)
    lines = LabelledLines(lines=tuple(say_job.facts(job)))
    return (lines, *named("job", cases))


def _headline(plan: TrainingPlan) -> str:
    if not plan.fits:
        return say.verdict(plan)
    text = _("{model} trains at {speed} {unit} on {count:,} GPUs, with {layout}.")
    return text.format(
        unit=say.per_second(plan),
        model=say.model_name(plan),
        speed=count(plan.best.tokens_per_s),
        count=plan.devices,
        layout=say.verdict(plan),
    )


def _facts(plan: TrainingPlan, job: JobCost | None) -> Iterator[Fact]:
    """What is decided by comes first: how long, how dear, how risky."""
    best = plan.best
    measured = not say.counts_samples(plan)
    detail = _("80 % interval: {interval}") if measured else _("no interval: no custom modules were measured")
    yield from () if job is None else _job_facts(job)
    device = _("of {size}").format(size=gigabytes(plan.device_bytes))
    yield Fact(name=_("OOM probability"), value=chance(best.chance), detail=device)
    times = detail.format(interval=interval(seconds(best.step_low_s), seconds(best.step_high_s)))
    yield Fact(name=_("step"), value=seconds(best.step_s), detail=times)
    per_gpu = best.tokens_per_s / plan.devices
    yield Fact(name=say.per_second_and_gpu(plan), value=count(per_gpu), detail=_("of {tokens} per step").format(
        tokens=count(plan.tokens_per_step)
    ))  # fmt: skip
    yield Fact(name="MFU", value=share(best.mfu), detail=_("of the peak in {dtype}").format(dtype=plan.dtype))
    sizes = detail.format(interval=interval(gigabytes(best.peak_low_bytes), gigabytes(best.peak_high_bytes)))
    yield Fact(name=_("GPU memory"), value=gigabytes(best.peak_bytes), detail=sizes)
    if job is None:
        yield Fact(name=_("parameters"), value=count(plan.parameters), detail=_active(plan))


def _job_facts(job: JobCost) -> Iterator[Fact]:
    between = _("{low} to {high}")
    span = between.format(low=say_job.days(job.days.low), high=say_job.days(job.days.high))
    yield Fact(name=_("whole job"), value=say_job.days(job.days.likely), detail=span)
    if job.money is None:
        hours = between.format(low=count(job.device_hours.low), high=count(job.device_hours.high))
        yield Fact(name=_("GPU-hours"), value=count(job.device_hours.likely), detail=hours)
    else:
        span = between.format(low=count(job.money.low), high=count(job.money.high))
        yield Fact(name=_("money"), value=count(job.money.likely), detail=span)


def _active(plan: TrainingPlan) -> str:
    return "" if plan.active_parameters == plan.parameters else active(plan.active_parameters)


# --- the chart --------------------------------------------------------------------------------------------------------


def frontier_figure(plan: TrainingPlan) -> dict[str, Any] | None:
    """Layouts by memory (GB) and speed (tokens per second and GPU); None where there is nothing to choose from."""
    if len({id(candidate) for candidate in (*plan.frontier, *plan.ranked)}) < 2:
        return None
    on_frontier = [candidate.layout for candidate in plan.frontier]
    others = [candidate for candidate in plan.ranked if candidate.layout not in on_frontier]
    return {
        "frontier": [_point(plan, candidate) for candidate in plan.frontier],
        "others": [_point(plan, candidate) for candidate in others],
        "best": _point(plan, plan.best),
        "device": digits(plan.device_bytes / 1e9),
        "device_name": _("memory of a GPU, {size}").format(size=gigabytes(plan.device_bytes)),
    }


def _point(plan: TrainingPlan, candidate: Candidate) -> dict[str, Any]:
    """What it needs and what it gives, with the interval of both."""
    tokens = plan.tokens_per_step / plan.devices
    layout = layouts.as_text(candidate.layout, candidate.micro_batches)
    lines = (layout, say.step(plan, candidate), say.speed(plan, candidate), say.memory(plan, candidate))
    return {
        "x": digits(candidate.peak_bytes / 1e9),
        "x_low": digits(candidate.peak_low_bytes / 1e9),
        "x_high": digits(candidate.peak_high_bytes / 1e9),
        "y": digits(tokens / candidate.step_s),
        "y_low": digits(tokens / candidate.step_high_s),
        "y_high": digits(tokens / candidate.step_low_s),
        "name": layouts.in_brief(candidate.layout),
        "text": "\n".join(lines),
    }


# --- how each number is defined ---------------------------------------------------------------------------------------

DEFINITIONS: Sequence[tuple[str, str]] = (
    (
        marked("80 % interval"),
        marked(
            "80 % of the published runs of this kind were measured inside it. It holds for models, machines and stacks "
            "like theirs."
        ),
    ),
    (
        marked("step"),
        marked(
            "Forward, backward and optimizer of one global batch, on the slowest stage. Its parts do not "
            "overlap: communication hidden behind compute is in none of them."
        ),
    ),
    (
        marked("MFU"),
        marked(
            "Model FLOPs of the batch, without recomputation, over what the GPUs could do in that time at "
            "their published peak."
        ),
    ),
    (
        marked("OOM probability"),
        marked(
            "Share of runs with this predicted memory that ran out of memory. Layouts above the accepted "
            "probability are not proposed."
        ),
    ),
    (
        marked("compute / communication"),
        marked(
            "Time of the compute that could hide an exchange, over the time of the exchange alone. From 1 on "
            "it can be hidden; how much is hidden depends on the software."
        ),
    ),
    (
        marked("goodput"),
        marked(
            "Share of time that makes progress: not spent on checkpoints, restarts, or work lost to "
            "failures. Each case uses its best checkpoint interval."
        ),
    ),
)


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
