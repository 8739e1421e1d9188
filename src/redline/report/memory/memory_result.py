"""What `memory` returns, as text, Markdown, a page, and JSON; docs/reference/memory.md describes every field."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from redline.job.read_failures import Failure
from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.byte_ledger import ByteLedger
from redline.ledger.memory.causes import MemoryCause, causes_of_fullest, fullest_device
from redline.ledger.memory.device_memory import DeviceMemory
from redline.ledger.memory.out_of_memory import OutOfMemory
from redline.ledger.memory.plan_comparison import ComparedBytes, PlanComparison, PlannedMemory, compare_plan
from redline.report.data import code, enveloped, picked, plain
from redline.report.display import Style
from redline.report.document import (
    Document,
    Heading,
    Items,
    LabelledLines,
    PageDocument,
    Paragraph,
    ReportColumn,
    ReportTable,
    Section,
    TemplateDrawing,
    table_of,
)  # fmt: skip
from redline.report.language import _, ngettext, sentences
from redline.report.markdown import capitalised
from redline.report.memory.course_chart import course_chart
from redline.report.memory.memory_messages import (
    ACCOUNT_NAMES,
    cause_line,
    change_line,
    free_memory,
    growth_sentence,
    headline_of,
    purpose,
    remarks,
    steps_sentence,
)  # fmt: skip
from redline.report.plan import layouts
from redline.report.shown_result import ShownResult
from redline.report.text_parts import clipped, share
from redline.units import format_memory

_MOST_ROWS, _MOST_ROWS_OF_PAGE = 8, 40
_MOST_CHANGES = 3
_MOST_GROWTH = 4
_MOST_CAUSES = 5
_MOST_HOLDERS = 100


@dataclass(frozen=True, kw_only=True)
class MemoryResult(ShownResult):
    """The memory of every device in the snapshots that were read."""

    devices: tuple[DeviceMemory, ...]
    failures: tuple[Failure, ...]
    device_bytes: int  # of memory that a device has; 0 where nobody said
    plan: PlannedMemory | None = None  # to hold the peak against

    @property
    def first(self) -> DeviceMemory:
        """The device to look at: one that ran out, else the one that held most."""
        return fullest_device(self.devices)

    @property
    def causes(self) -> tuple[MemoryCause, ...]:
        """Why the first device is as full as it is."""
        return causes_of_fullest(self.devices, self.device_bytes)

    @property
    def comparison(self) -> PlanComparison | None:
        """The plan beside the largest peak; None without a plan."""
        return None if self.plan is None else compare_plan(self.plan, self.devices, self.outside_bytes)

    def outside_bytes(self, device: DeviceMemory) -> int | None:
        """Outside of torch when an allocation failed: the context, NCCL, other processes. None where unknown."""
        if not self.device_bytes or device.failure is None:
            return None
        return self.device_bytes - device.failure.driver_free_bytes - device.failure.ledger.reserved_bytes

    def document(self, *, verbose: bool = False) -> Document:
        device = self.first
        changes = device.failure.changes if device.failure else ()
        fitting = Items(
            title=_fit_title(),
            about="" if any(change.would_fit for change in changes) else _("None of these is enough alone."),
            items=tuple(map(change_line, changes[:_MOST_CHANGES])),
            is_numbered=True,
        )
        causes = Items(
            title=_("what to change (redline explain CODE)"), items=self._causes()[:_MOST_CAUSES], rest="    "
        )
        first = Heading(text=self._headline(), style=Style.LIMIT if device.failure else Style.HEADING)
        noted = [(_("note"), remark) for remark in remarks(device, self.outside_bytes(device))]
        unread = [(_("not read"), clipped(failure.message, 300)) for failure in self.failures]
        return Document(
            blocks=(
                (first, LabelledLines(lines=tuple(_facts(self, device)))),
                *_tables(self, _MOST_ROWS),
                fitting,
                causes,
                _devices_table(self),
                LabelledLines(lines=tuple(noted)),
                LabelledLines(lines=tuple(unread)),
            )
        )

    def _headline(self) -> str:
        return headline_of(self.first, len({device.file for device in self.devices}), self.failures)

    def _causes(self) -> tuple[str, ...]:
        """Where a request failed, what would have made it fit is said instead."""
        return tuple(map(cause_line, self.causes)) if self.first.failure is None else ()

    def page(self) -> PageDocument:
        device = self.first
        chart = course_chart(device)
        changes = tuple(map(change_line, device.failure.changes)) if device.failure else ()
        unread = tuple(_("not read: {why}").format(why=clipped(failure.message, 300)) for failure in self.failures)
        noted = (*remarks(device, self.outside_bytes(device)), *unread)
        tables = tuple(table for table in (*_tables(self, _MOST_ROWS_OF_PAGE), _devices_table(self)) if table.rows)
        course: tuple[Paragraph | TemplateDrawing, ...] = () if chart is None else (
            Paragraph(text=sentences([
                _("Every byte in one account, at the fullest moment of each stretch."),
                _("From left to right: {length}.").format(length=chart.length) if chart.length else "",
                _("Lines: where a step begins.") if chart.steps else "",
            ])),
            TemplateDrawing(template="memory_course.html.j2", values={"chart": chart}),
        )  # fmt: skip
        return PageDocument(
            title=clipped(device.file.rpartition("/")[2], 80),
            headline=self._headline(),
            sections=(
                Section(blocks=(LabelledLines(lines=tuple(_facts(self, device))),), style="panel"),
                Section(title=_("What to change"), blocks=_numbered(self._causes()), style="panel"),
                Section(title=capitalised(_fit_title()), blocks=_numbered(changes), style="panel"),
                Section(name="course", link=_("Over time"), title=_("Over time"), blocks=course, style="panel"),
                Section(name="tables", link=_("Tables"), title=_("Tables"), blocks=tables),
                Section(blocks=(Items(items=noted),) if noted else (), style="panel"),
            ),
        )

    def record(self) -> dict[str, Any]:
        content = {
            "devices": [_device(self, device) for device in self.devices],
            "plan": None if self.comparison is None else _planned(self.comparison),
            "causes": plain(self.causes),
            "failures": [picked(failure, "path message") for failure in self.failures],
        }
        return enveloped("memory", 1, "redline memory", content)

    def __str__(self) -> str:
        return self.text()


def _fit_title() -> str:
    return _("what would have made it fit, the smallest change first")


def _numbered(items: tuple[str, ...]) -> tuple[Items, ...]:
    return (Items(items=items, is_numbered=True),) if items else ()


def _facts(result: MemoryResult, device: DeviceMemory) -> Iterator[tuple[str, str]]:
    history = ngettext("{count:,} event in {seconds:.2f} s", "{count:,} events in {seconds:.2f} s", device.events)
    yield _("file"), clipped(device.file, 200)
    if device.rank is not None and device.rank >= 0 and len(result.devices) > 1:
        yield _("rank"), str(device.rank)
    yield (
        _("device"),
        _("{device}; history of {history}").format(
            device=_device_name(device), history=history.format(count=device.events, seconds=device.span_us / 1e6)
        ),
    )
    if device.steps:
        yield _("steps"), steps_sentence(device)
    for growth in device.growth[:_MOST_GROWTH]:
        yield _("growth"), growth_sentence(growth)
    if device.failure is not None:
        yield _("asked for"), purpose(device.failure)
        yield _("free"), free_memory(device.failure)


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables(result: MemoryResult, most: int) -> Iterator[ReportTable]:
    """The accounts, the plan beside them, and who holds them: so many rows of these."""
    device = result.first
    yield _accounts_table(device)
    if result.comparison is not None:
        yield _plan_table(result.comparison)
    if device.has_sites:
        holders = device.shown.holders[:most]
        yield table_of(_holder_columns(), holders, title=_("who holds it"), empty=_("Nothing is in use."))
    if device.modules:
        total = device.peak.accounts[MemoryAccount.ACTIVATIONS]
        rows = tuple(
            (format_memory(size), share(size, total), clipped(module, 60)) for module, size in device.modules[:most]
        )
        title = _("activations by part of the model")
        yield ReportTable(title=title, head=(_("size"), _("share"), _("module")), rows=rows)


def _holder_columns() -> tuple[ReportColumn, ...]:
    return (
        ReportColumn("size_bytes", _("size"), format_memory),
        ReportColumn("blocks", _("blocks"), lambda blocks: f"{blocks:,}"),
        ReportColumn("account", _("account"), lambda account: _(ACCOUNT_NAMES[account])),
        ReportColumn("site", _("call site or module"), lambda site: clipped(site, 60) or _("no stack")),
    )


def _accounts_table(device: DeviceMemory) -> ReportTable:
    ledger = device.shown
    sizes = sorted(((size, account) for account, size in ledger.accounts.items() if size), key=lambda row: -row[0])
    rows = [(_(ACCOUNT_NAMES[account]), size) for size, account in sizes]
    rows.append((_("in use") if device.is_host else _("reserved"), ledger.reserved_bytes))
    return ReportTable(
        title=_("accounts at the failure") if device.failure is not None else _("accounts at the peak"),
        head=(_("account"), _("size"), _("share"), _("bytes")),
        rows=tuple((name, format_memory(size), share(size, ledger.reserved_bytes), f"{size:,}") for name, size in rows),
    )


def _plan_table(comparison: PlanComparison) -> ReportTable:
    """Accounts, what they add up to, and what a plan adds to that."""
    amounts = [(_(ACCOUNT_NAMES[account]), compared) for account, compared in comparison.accounts.items()]
    further = [(_("cached but free"), comparison.cached), (_("outside of torch"), comparison.outside)]
    rows = [*amounts, (_("= in use"), comparison.in_use), *further]
    return ReportTable(
        title=_("predicted by the plan, and measured at the peak"),
        head=(_("account"), _("predicted"), _("measured"), _("difference"), _("of measured")),
        rows=tuple((name, *_cells(compared)) for name, compared in rows),
        notes=tuple(_notes(comparison)),
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


def _device_name(device: DeviceMemory) -> str:
    return _("host") if device.is_host else str(device.device)


def _devices_table(result: MemoryResult) -> ReportTable:
    """A row for each device, in the order of the files; nothing for one."""
    columns = (
        ReportColumn("file", _("file"), lambda file: clipped(file.rpartition("/")[2], 60)),
        ReportColumn("device", _("device"), read=_device_name),
        ReportColumn("peak.live_bytes", _("peak in use"), format_memory),
        ReportColumn("shown.reserved_bytes", _("reserved"), format_memory),
        ReportColumn("cached", _("cached"), format_memory, lambda device: device.shown.accounts[MemoryAccount.CACHED]),
        ReportColumn("asked", _("asked"), _size, lambda device: device.failure and device.failure.asked_bytes),
        ReportColumn("short", _("short of"), _size, lambda device: device.failure and device.failure.short_bytes),
    )
    return table_of(columns, result.devices if len(result.devices) > 1 else (), title=_("devices"))


# --- for programs -----------------------------------------------------------------------------------------------------


def _device(result: MemoryResult, device: DeviceMemory) -> dict[str, Any]:
    return {
        **picked(device, "file device events span_us history_is_whole contradictions"),
        "problems": [{"reason": problem.reason.code, "count": problem.count} for problem in device.problems],
        "peak": _ledger(device.peak),
        "out_of_memory": None if device.failure is None else _failure(device.failure),
        "outside_bytes": result.outside_bytes(device),
        "rank": device.rank,
        "steps": plain(device.steps),
        "growth": [{**plain(growth), "account": code(growth.account)} for growth in device.growth],
        "activations_by_module": [{"module": module, "size_bytes": size} for module, size in device.modules],
        "missed_events": device.missed,
        "course": {
            "at_ns": list(device.course.at_ns),
            "has_times": device.course.has_times,
            "accounts": {code(account): list(values) for account, values in device.course.accounts.items()},
        },
    }


def _ledger(ledger: ByteLedger) -> dict[str, Any]:
    return {
        **picked(ledger, "moment reserved_bytes live_bytes"),
        "accounts": {code(account): size for account, size in ledger.accounts.items()},
        **picked(ledger, "rounding_bytes no_stack_bytes"),
        "before_history_bytes": ledger.before_bytes,
        "holes_bytes": list(ledger.holes[:_MOST_HOLDERS]),
        "holders": [{**plain(holder), "account": code(holder.account)} for holder in ledger.holders[:_MOST_HOLDERS]],
    }


def _failure(failure: OutOfMemory) -> dict[str, Any]:
    return {
        **picked(failure, "asked_bytes needed_bytes driver_free_bytes short_bytes site"),
        "account": code(failure.account),
        "logits": plain(failure.shape),
        "free_in_pages_bytes": failure.in_pieces_bytes,
        "expandable_segments": failure.has_expandable,
        "changes": [{**plain(change), "change": code(change.change)} for change in failure.changes],
        "ledger": _ledger(failure.ledger),
    }


def _planned(comparison: PlanComparison) -> dict[str, Any]:
    plan = comparison.plan
    further = {
        "in_use": comparison.in_use,
        "cached_but_free": comparison.cached,
        "outside_of_torch": comparison.outside,
    }
    return {
        **picked(plan, "file model machine dtype devices"),
        "compared_file": comparison.device.file,
        "compared_device": comparison.device.device,
        "compared_rank": comparison.device.rank,
        "accounts": {code(account): _compared(amount) for account, amount in comparison.accounts.items()},
        **{name: _compared(amount) for name, amount in further.items()},
    }


def _compared(amount: ComparedBytes) -> dict[str, Any]:
    return picked(amount, "predicted_bytes measured_bytes difference_bytes difference_share")
