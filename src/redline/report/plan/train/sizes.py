"""A training job on several numbers of GPUs, side by side."""

from collections.abc import Sequence

from redline.plan.train.search.training_plan import TrainingPlan
from redline.report.document import ReportTable
from redline.report.language import _
from redline.report.plan import layouts
from redline.report.plan.amounts import count, gigabytes, seconds, share, short_chance
from redline.report.plan.text_blocks import table_block
from redline.report.plan.train import units
from redline.report.terminal import as_text
from redline.report.text_parts import clipped


def render(plans: Sequence[TrainingPlan], refused: Sequence[tuple[int, str]], chosen: TrainingPlan) -> str:
    """What stands above the plan of the size that was chosen."""
    return as_text([table_block(sizes(plans, refused, chosen))]) + "\n"


def sizes(plans: Sequence[TrainingPlan], refused: Sequence[tuple[int, str]], chosen: TrainingPlan) -> ReportTable:
    speed = units.per_second(chosen), units.per_second_and_gpu(chosen)
    head = (
        _("GPUs"), _("best layout"), _("step"), *speed, "MFU", _("GPU memory"), _("OOM"),
    )  # fmt: skip
    rows = tuple(map(_row, plans))
    text = _("{count:,} GPUs: {why}")
    notes = (
        *(text.format(count=devices, why=clipped(why, 200)) for devices, why in refused),
        _("below: the plan for {count:,} GPUs").format(count=chosen.devices),
    )
    return ReportTable(title=_("by number of GPUs"), head=head, rows=rows, notes=notes, empty="")


def _row(plan: TrainingPlan) -> tuple[str, ...]:
    best = plan.best
    return (
        f"{plan.devices:,}",
        layouts.split(best.layout),
        seconds(best.step_s),
        count(best.tokens_per_s),
        count(best.tokens_per_s / plan.devices),
        share(best.mfu),
        gigabytes(best.peak_bytes),
        short_chance(best.chance),
    )
