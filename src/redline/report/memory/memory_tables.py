"""Tables about memory: the accounts, who holds them, and the devices side by side."""

from redline.analysis.memory.byte_ledger import ByteLedger
from redline.analysis.memory.device_memory import DeviceMemory
from redline.analysis.memory.memory_accounts import MemoryAccount
from redline.report.language import _
from redline.report.memory.memory_messages import ACCOUNT_NAMES
from redline.report.memory.memory_result import MemoryResult
from redline.report.report_table import ReportTable
from redline.report.text_parts import clipped, share
from redline.units import format_memory

_MOST_HOLDERS = 8


def accounts_table(device: DeviceMemory) -> ReportTable:
    ledger = device.shown
    rows = sorted(((size, account) for account, size in ledger.accounts.items() if size), key=lambda row: -row[0])
    title = _("accounts at the failure") if device.failure is not None else _("accounts at the peak")
    return ReportTable(
        title=title,
        head=(_("account"), _("size"), _("share"), _("bytes")),
        rows=(
            *(
                (_(ACCOUNT_NAMES[account]), format_memory(size), share(size, ledger.reserved_bytes), f"{size:,}")
                for size, account in rows
            ),
            (
                _("in use") if device.is_host else _("reserved"),
                format_memory(ledger.reserved_bytes),
                "100.0 %",
                f"{ledger.reserved_bytes:,}",
            ),
        ),
        notes=(),
        empty="",
    )


def holders_table(ledger: ByteLedger, most: int = _MOST_HOLDERS) -> ReportTable:
    rows = [
        (
            format_memory(holder.size_bytes),
            f"{holder.blocks:,}",
            _(ACCOUNT_NAMES[holder.account]),
            clipped(holder.site, 60) or _("no stack"),
        )
        for holder in ledger.holders[:most]
    ]
    return ReportTable(
        title=_("who holds it"),
        head=(_("size"), _("blocks"), _("account"), _("call site or module")),
        rows=tuple(rows),
        notes=(),
        empty=_("Nothing is in use."),
    )


def modules_table(device: DeviceMemory, most: int = _MOST_HOLDERS) -> ReportTable:
    """Activations at the peak by part of the model."""
    total = device.peak.accounts[MemoryAccount.ACTIVATIONS]
    rows = [(format_memory(size), share(size, total), clipped(module, 60)) for module, size in device.modules[:most]]
    return ReportTable(
        title=_("activations by part of the model"),
        head=(_("size"), _("share"), _("module")),
        rows=tuple(rows),
        notes=(),
        empty="",
    )


def device_name(device: DeviceMemory) -> str:
    return _("host") if device.is_host else str(device.device)


def devices_table(result: MemoryResult) -> ReportTable:
    """One line for each device, in the order of the files."""
    rows = [
        (
            clipped(device.file.rpartition("/")[2], 60),
            device_name(device),
            format_memory(device.peak.live_bytes),
            format_memory(device.shown.reserved_bytes),
            format_memory(device.shown.accounts[MemoryAccount.CACHED]),
            "-" if device.failure is None else format_memory(device.failure.asked_bytes),
            "-" if device.failure is None else format_memory(device.failure.short_bytes),
        )
        for device in result.devices
    ]
    return ReportTable(
        title=_("devices"),
        head=(_("file"), _("device"), _("peak in use"), _("reserved"), _("cached"), _("asked"), _("short of")),
        rows=tuple(rows),
        notes=(),
        empty="",
    )
