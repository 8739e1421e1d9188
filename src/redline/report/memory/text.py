"""The result of `memory` as text for a terminal, and as Markdown: one screen."""

from collections.abc import Iterator

from redline.analysis.memory.causes.cause import MemoryCause
from redline.analysis.memory.device_memory import DeviceMemory
from redline.report.diagnose.md import escaped, markdown_table
from redline.report.display import Style, columns, styled
from redline.report.language import _, ngettext
from redline.report.memory.memory_messages import (
    cause_line,
    change_line,
    free_memory,
    growth_sentence,
    headline,
    purpose,
    remarks,
    steps_sentence,
)
from redline.report.memory.memory_result import MemoryResult
from redline.report.memory.memory_tables import accounts_table, device_name, devices_table, holders_table, modules_table
from redline.report.memory.plan_table import plan_table
from redline.report.report_table import ReportTable
from redline.report.terminal import as_text, labelled, wrapped
from redline.report.text_parts import clipped
from redline.report.text_table import table

_LABEL_WIDTH = 10
_MOST_CHANGES = 3
_MOST_GROWTH = 4
_MOST_CAUSES = 5


def render_text(result: MemoryResult) -> str:
    device = result.first
    lines = [line for label, text in facts(result, device) for line in labelled(label, text, _LABEL_WIDTH)]
    style = Style.HEADING if device.failure is None else Style.LIMIT
    return as_text(
        [
            [*wrapped(styled(headline(device), style), columns(), rest="  "), *lines],
            _lines(accounts_table(device)),
            *(_lines(shown) for shown in plan_tables(result)),
            _lines(holders_table(device.shown)) if device.has_sites else [],
            _lines(modules_table(device)) if device.modules else [],
            list(_changes(device)),
            list(_causes(result)),
            _lines(devices_table(result)) if len(result.devices) > 1 else [],
            [line for remark in remarks(result, device) for line in labelled(_("note"), remark, _LABEL_WIDTH)],
            [
                line
                for failure in result.failures
                for line in labelled(_("not read"), clipped(failure.message, 300), _LABEL_WIDTH)
            ],
        ]
    )


def render_md(result: MemoryResult) -> str:
    device = result.first
    changes = [change_line(change) for change in (device.failure.changes if device.failure else ())[:_MOST_CHANGES]]
    return as_text(
        [
            [f"## {escaped(headline(device))}"],
            [f"- {label}: {escaped(text)}" for label, text in facts(result, device)],
            markdown_table(accounts_table(device)),
            *(block for shown in plan_tables(result) for block in _planned_md(shown)),
            markdown_table(holders_table(device.shown)) if device.has_sites else [],
            markdown_table(modules_table(device)) if device.modules else [],
            [f"{number}. {escaped(change)}" for number, change in enumerate(changes, start=1)],
            [f"- {escaped(cause_line(cause))}" for cause in shown_causes(result)],
            markdown_table(devices_table(result)) if len(result.devices) > 1 else [],
            [f"- {escaped(remark)}" for remark in remarks(result, device)],
            [f"- {escaped(clipped(failure.message, 300))}" for failure in result.failures],
        ]
    )


def facts(result: MemoryResult, device: DeviceMemory) -> Iterator[tuple[str, str]]:
    history = ngettext("{count:,} event in {seconds:.2f} s", "{count:,} events in {seconds:.2f} s", device.events)
    yield _("file"), clipped(device.file, 200)
    if device.rank is not None and device.rank >= 0 and len(result.devices) > 1:
        yield _("rank"), str(device.rank)
    yield (
        _("device"),
        _("{device}; history of {history}").format(
            device=device_name(device), history=history.format(count=device.events, seconds=device.span_us / 1e6)
        ),
    )
    if device.steps:
        yield _("steps"), steps_sentence(device)
    for growth in device.growth[:_MOST_GROWTH]:
        yield _("growth"), growth_sentence(growth)
    if device.failure is not None:
        yield _("asked for"), purpose(device.failure)
        yield _("free"), free_memory(device.failure)


def _lines(shown: ReportTable) -> list[str]:
    if not shown.rows:
        return [shown.empty]
    notes = [line for note in shown.notes for line in wrapped(styled(note, Style.SECONDARY), columns(), "  ", "    ")]
    return [shown.title, *(f"  {line}".rstrip() for line in table(shown.head, shown.rows)), *notes]


def plan_tables(result: MemoryResult) -> tuple[ReportTable, ...]:
    """None without a plan."""
    comparison = result.comparison
    return () if comparison is None else (plan_table(comparison),)


def _planned_md(shown: ReportTable) -> tuple[list[str], list[str]]:
    return markdown_table(shown), [f"- {escaped(note)}" for note in shown.notes]


def shown_causes(result: MemoryResult) -> tuple[MemoryCause, ...]:
    """Where a request failed, what would have made it fit is said instead."""
    return result.causes if result.first.failure is None else ()


def _causes(result: MemoryResult) -> Iterator[str]:
    if shown_causes(result):
        yield _("what to change (redline explain CODE)")
    for cause in shown_causes(result)[:_MOST_CAUSES]:
        yield from wrapped(cause_line(cause), columns(), "  ", "    ")


def _changes(device: DeviceMemory) -> Iterator[str]:
    if device.failure is None or not device.failure.changes:
        return
    yield _("what would have made it fit, the smallest change first")
    if not any(change.would_fit for change in device.failure.changes):
        yield from wrapped(_("None of these is enough alone."), columns(), "  ", "  ")
    for number, change in enumerate(device.failure.changes[:_MOST_CHANGES], start=1):
        yield from wrapped(change_line(change), columns(), f"  {number}. ", "     ")
