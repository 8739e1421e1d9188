"""Memory in a diagnosis, as pieces of text that every format arranges in its own way."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os.path import commonpath
from pathlib import Path
from statistics import median

from redline.ledger.accounts import MemoryAccount
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.job_memory import JobMemory
from redline.ledger.memory.causes import GROWTH, like_devices, peaks_by_rank
from redline.ledger.memory.device_memory import DeviceMemory
from redline.report.document import StackedBars, StackedPart
from redline.report.language import _, ngettext
from redline.report.memory.course_chart import COLOURS
from redline.report.memory.memory_messages import ACCOUNT_NAMES, cause_line, doubts, growth_sentence, steps_sentence
from redline.report.text_parts import clipped, rank_list, share
from redline.units import format_memory

_FEW_ACCOUNTS = 4  # lines: of the largest, and of the rest
_MOST_LEFT_OUT = 300  # letters of a reason
_SITE = 60  # letters


@dataclass(frozen=True, kw_only=True)
class MemoryPeak:
    """What a diagnosis says of the fullest device, and of the others beside it."""

    accounts: StackedBars  # the largest first
    few_accounts: StackedBars  # the same, all but the largest in one line
    facts: tuple[tuple[str, str], ...]  # label and text
    causes: tuple[str, ...]
    doubts: tuple[str, ...]  # what weakens the figures
    command: str  # for the rest of it


def memory_peak(diagnosis: Diagnosis, memory: JobMemory, *, redacted: bool) -> MemoryPeak | None:
    """None where nothing is known of any rank. Paths that were redacted are none to type."""
    several, device = len(diagnosis.ranks) > 1, memory.fullest
    if device is None:
        return None
    return MemoryPeak(
        accounts=_bars(device, len(MemoryAccount), several=several),
        few_accounts=_bars(device, _FEW_ACCOUNTS, several=several),
        facts=tuple(_facts(memory, device, several=several)),
        causes=tuple(map(cause_line, memory.causes)),
        doubts=tuple(doubts(device)),
        command=f"redline memory {'PATH' if redacted else _path(diagnosis)} -o memory.html",
    )


def growth_text(memory: JobMemory, *, several: bool) -> str:
    """For the verdict: no job is well whose memory grows. "" where it was not seen to."""
    device = memory.growing
    if device is None:
        return ""
    return _("Memory of {place} grows by {size} in every step, most of it at {site} ({code}).").format(
        place=_place(device, several=several),
        size=format_memory(device.growth_bytes_per_step),
        site=clipped(device.growth[0].site, _SITE) or _("an unknown place"),
        code=GROWTH,
    )


def left_out_lines(memory: JobMemory) -> Iterator[str]:
    """Ranks whose memory cannot be told, together where the reason is the same."""
    by_reason: dict[str, list[int]] = {}
    for untold in memory.left_out:
        by_reason.setdefault(untold.why, []).append(untold.rank)
    for why, ranks in by_reason.items():
        text = ngettext("memory left out of rank {ranks}: {why}", "memory left out of ranks {ranks}: {why}", len(ranks))
        yield text.format(ranks=rank_list(ranks), why=clipped(why, _MOST_LEFT_OUT))


def _place(device: DeviceMemory, *, several: bool) -> str:
    if device.is_host:
        return _("the host of rank {rank}").format(rank=device.rank) if several else _("the host")
    text = _("device {device} of rank {rank}") if several else _("device {device}")
    return text.format(device=device.device, rank=device.rank)


def _title(device: DeviceMemory, *, several: bool) -> str:
    text = _("memory at the peak of {place}: {live} in use, {reserved} reserved")
    if device.is_host:
        text = _("memory at the peak of {place}: {live} in use by torch")
    return text.format(
        place=_place(device, several=several),
        live=format_memory(device.peak.live_bytes),
        reserved=format_memory(device.peak.reserved_bytes),
    )


def _bars(device: DeviceMemory, most: int, *, several: bool) -> StackedBars:
    """The largest, and the rest as one."""
    peak = device.peak
    sizes = sorted(((size, account) for account, size in peak.accounts.items() if size), key=lambda row: -row[0])
    own = sizes if len(sizes) <= most else sizes[: most - 1]
    rest = sizes[len(own) :]
    parts = [(COLOURS[account], _(ACCOUNT_NAMES[account]), size) for size, account in own]
    if rest:
        name = _("{count} others").format(count=len(rest))
        parts.append((COLOURS[MemoryAccount.UNKNOWN], name, sum(size for size, _account in rest)))
    bars, before = [], 0
    whole = max(peak.reserved_bytes, 1)
    for colour, name, size in parts:
        bars.append(
            StackedPart(
                code=colour,
                colour=colour,
                name=name,
                amount=format_memory(size),
                share=share(size, peak.reserved_bytes),
                start=before / whole,
                end=(before + size) / whole,
            )
        )
        before += size
    return StackedBars(
        title=_title(device, several=several),
        bars=tuple(bars),
        total_name=_("= reserved"),
        total=format_memory(peak.reserved_bytes),
    )


def _facts(memory: JobMemory, device: DeviceMemory, *, several: bool) -> Iterator[tuple[str, str]]:
    peaks = peaks_by_rank((device, *like_devices(device, memory.devices)))
    if len(peaks) > 1:
        yield _("peaks"), _peaks(peaks)
    if device.steps:
        yield _("steps"), steps_sentence(device)
    growing = memory.growing
    for growth in growing.growth[:1] if growing is not None else ():
        text = growth_sentence(growth)
        if growing is not None and growing is not device:
            text = _("{place}: {text}").format(place=_place(growing, several=several), text=text)
        yield _("growth"), text


def _peaks(by_rank: Mapping[int, int]) -> str:
    peaks = sorted((size, rank) for rank, size in by_rank.items())
    (least, low), (most, high) = peaks[0], peaks[-1]
    if format_memory(least) == format_memory(most):
        return _("{size} on each of {count:,} ranks").format(size=format_memory(most), count=len(peaks))
    return _("from {least} (rank {low}) to {most} (rank {high}), median of {count:,} ranks {middle}").format(
        least=format_memory(least),
        low=low,
        most=format_memory(most),
        high=high,
        count=len(peaks),
        middle=format_memory(round(median(peak for peak, _rank in peaks))),
    )


def _path(diagnosis: Diagnosis) -> str:
    """The trace, or the folder that all of them are in."""
    files = sorted({rank.origin.source.partition("!")[0] for rank in diagnosis.ranks})
    if len(files) == 1:
        return shlex.quote(files[0])
    folders = {str(Path(file).parent) for file in files}
    is_alike = len({Path(folder).is_absolute() for folder in folders}) == 1
    return shlex.quote(commonpath(folders) or ".") if is_alike else "PATH"
