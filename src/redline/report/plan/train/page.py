"""The plan of a training job as one HTML file that needs nothing else: its tables, its charts, what each number is."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from redline.plan.job.job_cost import JobCost
from redline.plan.train.search.training_plan import Candidate, TrainingPlan
from redline.report.document import Fact, ReportTable
from redline.report.html.frame import frame, template
from redline.report.html.tables import sorted_table, table_text
from redline.report.language import _, marked, sentences
from redline.report.plan import layouts
from redline.report.plan.amounts import chance, count, gigabytes, seconds, share
from redline.report.plan.train import job as say_job
from redline.report.plan.train import measured_messages as say_measured
from redline.report.plan.train import tables
from redline.report.plan.train import training_messages as say
from redline.report.plan.train.training_report import facts
from redline.report.text_parts import interval


def render(plan: TrainingPlan, job: JobCost | None = None, sizes: Sequence[TrainingPlan] = ()) -> str:
    """`sizes` are the plans for all numbers of GPUs that were asked for."""
    shown = dict(_tables(plan, job, sizes))
    figure = frontier_figure(plan)
    words = {
        "memory": _("memory at the peak, GB per GPU"),
        "best": _("the best"),
        "frontier": _("Pareto frontier of step time and memory"),
        "others": _("other good layouts"),
        "speed": say.speed_axis(plan),
    }
    return template("plan/train.html.j2").render(
        **frame(
            say.headline(plan),
            charts={} if figure is None else {"frontier": asdict(figure)},
            tables={name: asdict(sorted_table(table)) for name, table in shown.items()},
            words={**table_text(), **words},
            drawers=["plan/charts.js"],
        ),
        headline=_headline(plan),
        second=sentences([say.headline(plan), *say.advice(plan)]),
        facts=list(_facts(plan, job)),
        step=tables.step_bars(plan),
        memory=tables.memory_bars(plan),
        changes=say.changes(plan),
        job_facts=[] if job is None else list(say_job.facts(job)),
        trust=list(say.trust(plan)),
        about=list(facts(plan)),
        definitions=[(_(term), _(text)) for term, text in DEFINITIONS],
    )


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
    detail = _("80 % interval: {interval}") if measured else _("no custom modules were measured")
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
    if plan.active_parameters == plan.parameters:
        return ""
    return _("{count} active").format(count=count(plan.active_parameters))


def _tables(
    plan: TrainingPlan, job: JobCost | None, sizes: Sequence[TrainingPlan]
) -> Iterator[tuple[str, ReportTable]]:
    """Those that have rows."""
    made = {
        "measured": None if plan.measured is None else say_measured.accounts(plan.measured),
        "overlaps": tables.overlaps(plan),
        "ranked": tables.ranked(plan, brief=False),
        "alternatives": tables.alternatives(plan, brief=False),
        "job": None if job is None else say_job.cases(job, unit=plan.unit, brief=False),
        "sizes": tables.sizes(sizes, (), plan) if len(sizes) > 1 else None,
    }
    yield from ((name, table) for name, table in made.items() if table is not None and table.rows)


# --- the chart --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LayoutPoint:
    """One layout by what it needs and what it gives, with the interval of both."""

    x: float
    x_low: float
    x_high: float
    y: float
    y_low: float
    y_high: float
    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class FrontierFigure:
    """Layouts by memory (GB) and speed (tokens per second and GPU)."""

    frontier: list[LayoutPoint]
    others: list[LayoutPoint]
    """That were ranked, and have a better one beside them."""
    best: LayoutPoint
    device: float
    device_name: str


def frontier_figure(plan: TrainingPlan) -> FrontierFigure | None:
    """None where there is nothing to choose from."""
    if len({id(candidate) for candidate in (*plan.frontier, *plan.ranked)}) < 2:
        return None
    on_frontier = [candidate.layout for candidate in plan.frontier]
    return FrontierFigure(
        frontier=_points(plan, plan.frontier),
        others=_points(plan, [candidate for candidate in plan.ranked if candidate.layout not in on_frontier]),
        best=_point(plan, plan.best),
        device=_digits(plan.device_bytes / 1e9),
        device_name=_("memory of a GPU, {size}").format(size=gigabytes(plan.device_bytes)),
    )


def _points(plan: TrainingPlan, candidates: Sequence[Candidate]) -> list[LayoutPoint]:
    return [_point(plan, candidate) for candidate in candidates]


def _point(plan: TrainingPlan, candidate: Candidate) -> LayoutPoint:
    tokens = plan.tokens_per_step / plan.devices
    text = _("{layout}\nstep {step}, {speed} {unit}\n{memory}, OOM probability {chance}").format(
        layout=layouts.as_text(candidate.layout, candidate.micro_batches),
        step=seconds(candidate.step_s),
        speed=count(tokens / candidate.step_s),
        unit=say.per_second_and_gpu(plan),
        memory=gigabytes(candidate.peak_bytes),
        chance=chance(candidate.chance),
    )
    return LayoutPoint(
        x=_digits(candidate.peak_bytes / 1e9),
        x_low=_digits(candidate.peak_low_bytes / 1e9),
        x_high=_digits(candidate.peak_high_bytes / 1e9),
        y=_digits(tokens / candidate.step_s),
        y_low=_digits(tokens / candidate.step_high_s),
        y_high=_digits(tokens / candidate.step_low_s),
        name=layouts.in_brief(candidate.layout),
        text=text,
    )


def _digits(value: float) -> float:
    """Five are more than a chart can show."""
    return float(f"{value:.5g}")


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
        marked("frontier"),
        marked("Pareto frontier of step time and memory."),
    ),
    (
        marked("goodput"),
        marked(
            "Share of time that makes progress: not spent on checkpoints, restarts, or work lost to "
            "failures. Each case uses its best checkpoint interval."
        ),
    ),
)
