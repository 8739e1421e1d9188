"""The plan of a training job as one HTML file that needs nothing else."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from redline.plan.job.job_cost import JobCost
from redline.plan.train.search.training_plan import TrainingPlan
from redline.report.document import Fact, ReportTable, StackedBars
from redline.report.html.frame import frame, template
from redline.report.html.plan.script_messages import script_messages
from redline.report.html.plan.train.definitions import definitions
from redline.report.html.plan.train.figures import COLOURS, frontier_figure
from redline.report.html.tables import sorted_table
from redline.report.language import _, sentences
from redline.report.plan.amounts import chance, count, gigabytes, seconds, share
from redline.report.plan.train import job as say_job
from redline.report.plan.train import training_messages as say
from redline.report.plan.train import units
from redline.report.plan.train.screen import TrainScreen, screen_of
from redline.report.plan.train.sizes import sizes as sizes_table
from redline.report.text_parts import interval


@dataclass(frozen=True, kw_only=True)
class BarRow:
    """One part of a whole; positions in percent of what the bars are drawn against."""

    colour: str
    name: str
    amount: str
    share: str
    start: float
    width: float


def render(plan: TrainingPlan, job: JobCost | None = None, sizes: Sequence[TrainingPlan] = ()) -> str:
    """`sizes` are the plans for all numbers of GPUs that were asked for."""
    screen = screen_of(plan, job, brief=False)
    shown = dict(_tables(screen, plan, sizes))
    figure = frontier_figure(plan)
    return template("plan/train/page.html.j2").render(
        **frame(
            say.headline(plan),
            charts={} if figure is None else {"frontier": asdict(figure)},
            tables={name: asdict(sorted_table(table)) for name, table in shown.items()},
            words={**script_messages(), "speed": units.speed_axis(plan)},
            drawers=["plan/charts.js"],
        ),
        screen=screen,
        titles={name: table.title for name, table in shown.items()},
        headline=_headline(plan),
        second=sentences([say.headline(plan), *screen.advice]),
        facts=list(_facts(plan, job)),
        step_rows=list(_rows(screen.step)),
        memory_rows=list(_rows(screen.memory)),
        limit=round(100 * screen.memory.limit, 3),
        about=screen.facts,
        definitions=definitions(),
    )


def _headline(plan: TrainingPlan) -> str:
    if not plan.fits:
        return say.verdict(plan)
    text = _("{model} trains at {speed} {unit} on {count:,} GPUs, with {layout}.")
    return text.format(
        unit=units.per_second(plan),
        model=say.model_name(plan),
        speed=count(plan.best.tokens_per_s),
        count=plan.devices,
        layout=say.verdict(plan),
    )


def _facts(plan: TrainingPlan, job: JobCost | None) -> Iterator[Fact]:
    """What is decided by comes first: how long, how dear, how risky."""
    best = plan.best
    measured = not units.counts_samples(plan)
    detail = _("80 % interval: {interval}") if measured else _("no custom modules were measured")
    yield from () if job is None else _job_facts(job)
    device = _("of {size}").format(size=gigabytes(plan.device_bytes))
    yield Fact(name=_("OOM probability"), value=chance(best.chance), detail=device)
    times = detail.format(interval=interval(seconds(best.step_low_s), seconds(best.step_high_s)))
    yield Fact(name=_("step"), value=seconds(best.step_s), detail=times)
    per_gpu = best.tokens_per_s / plan.devices
    yield Fact(name=units.per_second_and_gpu(plan), value=count(per_gpu), detail=_("of {tokens} per step").format(
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


def _rows(bars: StackedBars) -> Iterator[BarRow]:
    for stacked_part in bars.bars:
        yield BarRow(
            colour=COLOURS[stacked_part.code],
            name=stacked_part.name,
            amount=stacked_part.amount,
            share=stacked_part.share,
            start=round(100 * stacked_part.start, 3),
            width=round(100 * (stacked_part.end - stacked_part.start), 3),
        )


def _tables(
    screen: TrainScreen, plan: TrainingPlan, sizes: Sequence[TrainingPlan]
) -> Iterator[tuple[str, ReportTable]]:
    """Those that have rows."""
    made: dict[str, ReportTable | None] = {
        "measured": screen.measured,
        "overlaps": screen.overlaps,
        "ranked": screen.ranked,
        "alternatives": screen.alternatives,
        "job": screen.job,
        "sizes": sizes_table(sizes, (), plan) if len(sizes) > 1 else None,
    }
    yield from (
        (name, report_table) for name, report_table in made.items() if report_table is not None and report_table.rows
    )
