"""All that is said of the plan of a training job, as pieces of text that every format arranges in its own way."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from redline.plan.job.job_cost import JobCost
from redline.plan.train.search.training_plan import TrainingPlan
from redline.report.document import ReportTable, StackedBars, StackedPart
from redline.report.language import _
from redline.report.plan.amounts import gigabytes, parameters
from redline.report.plan.train import job as say_job
from redline.report.plan.train import measured_messages as say_measured
from redline.report.plan.train import tables
from redline.report.plan.train import training_messages as say

_FAINT = 0.0005  # of the whole: less has no bar of its own


@dataclass(frozen=True, kw_only=True)
class TrainScreen:
    """Everything that is said."""

    headline: str
    fits: bool
    verdict: str
    advice: tuple[str, ...]
    """Where nothing fits: what would."""
    facts: tuple[tuple[str, str], ...]
    step: StackedBars
    memory: StackedBars
    measured: ReportTable | None
    overlaps: ReportTable
    ranked: ReportTable
    alternatives: ReportTable
    changes: tuple[str, ...]
    job: ReportTable | None
    job_facts: tuple[tuple[str, str], ...]
    trust: tuple[str, ...]


def screen_of(plan: TrainingPlan, job: JobCost | None = None, *, brief: bool) -> TrainScreen:
    """`brief` has of the other layouts only those that a person asks for first."""
    return TrainScreen(
        headline=say.headline(plan),
        fits=plan.fits,
        verdict=say.verdict(plan),
        advice=() if plan.fits else tuple(say.would_fit(plan)),
        facts=tuple(_facts(plan)),
        step=step_bars(plan),
        memory=memory_bars(plan),
        measured=None if plan.measured is None else say_measured.accounts(plan.measured),
        overlaps=tables.overlaps(plan),
        ranked=tables.ranked(plan, brief=brief),
        alternatives=tables.alternatives(plan, brief=brief),
        changes=tuple(map(say.change, plan.changes)) if plan.fits else (),
        job=None if job is None else say_job.cases(job, unit=plan.unit, brief=brief),
        job_facts=() if job is None else tuple(say_job.facts(job)),
        trust=tuple(say.trust(plan)),
    )


def _facts(plan: TrainingPlan) -> Iterator[tuple[str, str]]:
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


# --- parts of a whole -------------------------------------------------------------------------------------------------


def step_bars(plan: TrainingPlan) -> StackedBars:
    """The predicted step, part after part."""
    parts = {name: float(getattr(plan.best.time, name)) for name in say.PARTS}
    unit, scale, digits = _time_unit(plan.best.step_s)

    def amount(time_s: float) -> str:
        return f"{time_s / scale:,.{digits}f} {unit}"

    bars = tuple(_bars(parts, say.PARTS, plan.best.step_s, amount))
    title = _("where the predicted step goes, on the slowest stage")
    return StackedBars(title=title, bars=bars, total_name=_("= step"), total=amount(plan.best.step_s))


def memory_bars(plan: TrainingPlan) -> StackedBars:
    """The peak on the fullest device, part after part, drawn against what the device has."""
    parts = {name: float(getattr(plan.best.memory, name)) for name in say.HOLDERS}
    whole = max(plan.device_bytes, plan.best.peak_bytes)
    return StackedBars(
        title=_("peak memory of the step, on the fullest GPU"),
        bars=tuple(_bars(parts, say.HOLDERS, whole, gigabytes, plan.device_bytes)),
        total_name=_("= peak"),
        total=gigabytes(plan.best.peak_bytes),
        total_share=f"{100 * plan.best.peak_bytes / plan.device_bytes:.1f} %",
        of=_("of {size}").format(size=gigabytes(plan.device_bytes)),
        limit=plan.device_bytes / whole,
    )


def _bars(
    parts: Mapping[str, float],
    names: Mapping[str, str],
    whole: float,
    amount: Callable[[float], str],
    hundred: float | None = None,
) -> Iterator[StackedPart]:
    """Drawn against `whole`; shares are of `hundred`, or of the same."""
    before = 0.0
    for name, value in parts.items():
        if value >= _FAINT * whole:
            yield StackedPart(
                code=name.rpartition("_")[0],
                name=_(names[name]),
                amount=amount(value),
                share=f"{100 * value / (hundred or whole):.1f} %",
                start=before / whole,
                end=(before + value) / whole,
            )
        before += value


def _time_unit(longest_s: float) -> tuple[str, float, int]:
    """One unit for all parts, so that they can be compared by eye, and the digits after its point."""
    return ("s", 1.0, 3) if longest_s >= 10 else ("ms", 1e-3, 1)
