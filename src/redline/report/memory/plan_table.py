"""The memory that a plan predicts beside the measured one: the table, and the sentences under it."""

from collections.abc import Iterator

from redline.analysis.memory.plan_comparison import ComparedBytes, PlanComparison
from redline.report.language import _
from redline.report.memory.memory_messages import ACCOUNT_NAMES
from redline.report.plan import layouts
from redline.report.report_table import ReportTable
from redline.report.text_parts import clipped
from redline.units import format_memory


def plan_table(comparison: PlanComparison) -> ReportTable:
    """Accounts, what they add up to, and what a plan adds to that."""
    amounts = [(_(ACCOUNT_NAMES[account]), compared) for account, compared in comparison.accounts.items()]
    further = [(_("cached but free"), comparison.cached), (_("outside of torch"), comparison.outside)]
    rows = [*amounts, (_("= in use"), comparison.in_use), *further]
    return ReportTable(
        title=_("predicted by the plan, and measured at the peak"),
        head=(_("account"), _("predicted"), _("measured"), _("difference"), _("of measured")),
        rows=tuple((name, *_cells(compared)) for name, compared in rows),
        notes=tuple(_notes(comparison)),
        empty="",
    )


def _cells(compared: ComparedBytes) -> tuple[str, str, str, str]:
    difference, share = compared.difference_bytes, compared.difference_share
    return (
        _size(compared.predicted_bytes),
        _size(compared.measured_bytes),
        "-" if difference is None else f"{'+' if difference > 0 else ''}{format_memory(difference)}",
        "-" if share is None else f"{100 * share:+.1f} %",
    )


def _size(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else format_memory(size_bytes)


def _notes(comparison: PlanComparison) -> Iterator[str]:
    plan, device = comparison.plan, comparison.device
    yield _("Predicted: {model} on {count:,} {machine} in {dtype}, {layout}.").format(
        model=clipped(plan.model, 60) or _("a model"),
        count=plan.devices,
        machine=clipped(plan.machine, 60),
        dtype=clipped(plan.dtype, 20),
        layout=layouts.as_text(plan.layout, plan.micro_batches),
    )
    if comparison.ranks > 1:
        yield _("Measured: the device with the largest peak of {count:,}, in {file}.").format(
            count=comparison.ranks, file=clipped(device.file.rpartition("/")[2], 60)
        )
    yield _("The difference is predicted minus measured. A dash: one side does not know it, or nothing was measured.")
    if comparison.ranks != plan.devices:
        yield _("GPUs of the plan: {planned:,}. Devices whose memory was read: {count:,}.").format(
            planned=plan.devices, count=comparison.ranks
        )
    if device.is_host:
        yield _("The host has no caching allocator and no CUDA context: what a plan adds for them is not compared.")
    if device.failure is not None:
        yield _("The job ran out of memory: its peak would have been larger.")
