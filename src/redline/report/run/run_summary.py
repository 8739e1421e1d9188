"""A run that is over, on one screen: how it ended, its steps, what was captured of it, and what was noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median, median_low

from redline.capture.captured import TIMED
from redline.capture.run_record import CAPTURED, DigestsRecord, RankRecord, RunRecord, WindowRecord
from redline.report import counted_nouns
from redline.report.document import Document, Heading, LabelledLines
from redline.report.language import _, clauses, listed, marked, ngettext
from redline.report.run.run_notes import LOST, NAME_LIMIT, levers_of, notes_of
from redline.report.terminal import first_within
from redline.report.text_parts import clipped, interval, percent, rank_list
from redline.units import format_bytes, format_ns

MOST_LINES = 20
_MOST_SLOW = 3  # ranks that are named
_MOST_WINDOWS = 3  # the newest
_STANDS_OUT = 1.1  # times the step of the others, or as much of it more waiting
_ENOUGH_STEPS = 20  # to tell a slow rank from chance
_SLOWED = 1.05  # below it, recording is not said to have made steps longer
_TORCHRUN = ("-m", "torch.distributed.run")

Ranks = Sequence[RankRecord]


def document_of_run(record: RunRecord, folder: Path | None) -> Document:
    """With as many notes as there is room for. Ranks are those of the last attempt."""
    ranks = _last_attempt(record.ranks)
    said = Heading(text=f"redline: {_headline(record, ranks)}")
    facts = tuple(_facts(record, ranks))
    notes = tuple(notes_of(record, ranks))
    where = ((_("folder"), shown_path(folder)),) if folder is not None else ()

    def with_notes(count: int) -> Document:
        left = len(notes) - count
        more = ngettext("{count:,} more note, in run.json", "{count:,} more notes, in run.json", left)
        told = (*notes[:count], *([more.format(count=left)] if left else []))
        lines = (*facts, *((_("note"), note) for note in told), *where)
        return Document(blocks=((said, LabelledLines(lines=lines, indent="  ")),))

    return first_within(map(with_notes, range(len(notes), -1, -1)), MOST_LINES)


def shown_path(path: Path) -> str:
    with suppress(ValueError, OSError):  # it is elsewhere, or the folder that we are in is gone
        path = path.relative_to(Path.cwd())
    return clipped(str(path), 400)


def _last_attempt(ranks: Ranks) -> list[RankRecord]:
    """Of each rank, the record of the process that was started last."""
    newest = {rank.rank: rank for rank in sorted(ranks, key=lambda rank: rank.restart)}
    return [newest[rank] for rank in sorted(newest)]


def _facts(record: RunRecord, ranks: Ranks) -> Iterator[tuple[str, str]]:
    """Labels and texts; what has no text is left out."""
    yield _("steps"), _steps(record, ranks)
    yield _("levers"), _levers(record, ranks)
    yield _("input"), _waiting(ranks)
    yield _("slow"), _slow(ranks)
    windows = _windows(record.ranks)
    earlier = len(windows) - _MOST_WINDOWS
    if earlier > 0:
        text = ngettext("{count:,} earlier window", "{count:,} earlier windows", earlier)
        yield _("captured"), text.format(count=earlier)
    for (restart, number), parts in windows[-_MOST_WINDOWS:]:
        label = _("timed") if number == TIMED else _("window {number}").format(number=number)
        yield label, _window(restart, number, parts, len(ranks))
    if record.digests is not None:
        yield _("digests"), _digests(record.digests)
    peaks = [(rank.peak_bytes, rank.rank) for rank in ranks if rank.peak_bytes]
    if peaks:
        peak_bytes, rank = max(peaks, key=lambda peak: peak[0])
        text = _("at most {peak} in the process")
        if len(ranks) > 1:
            text = _("at most {peak} in a process, rank {rank}")
        yield _("peak"), text.format(peak=format_bytes(peak_bytes), rank=rank)


# --- how it ended, and its steps --------------------------------------------------------------------------------------


def _headline(record: RunRecord, ranks: Ranks) -> str:
    """What ran, on how many ranks, and how it ended."""
    who = counted_nouns.ranks(len(ranks))
    if record.world > len({rank.rank for rank in record.ranks}):
        who = _("{ranks} of {world:,}").format(ranks=who, world=record.world)
    text = _("{command}: {ranks}, exit code {code} after {time}")
    if record.signal is not None:
        text = _("{command}: {ranks}, ended by {signal} after {time}")
    return text.format(
        command=_command(record.command),
        ranks=who,
        code=record.exit_code,
        signal=record.signal,
        time=format_ns(record.wall_ns),
    )


def _command(command: Sequence[str]) -> str:
    words = list(command[1:])
    for at, pair in enumerate(pairwise(words)):
        if pair == _TORCHRUN:
            words[: at + 2] = ["torchrun"]
            break
    return clipped(" ".join(words), NAME_LIMIT)


KINDS: Mapping[str, str] = {
    "optimizer": marked("counted from optimizer steps"),
    "calls": marked("counted from model calls"),
    "by hand": marked("counted from redline.step()"),
}


def _steps(record: RunRecord, ranks: Ranks) -> str:
    counts = [rank.steps for rank in ranks]
    if not any(counts):
        return ""
    least, most = min(counts), max(counts)
    number = f"{most:,}" if least == most else _("{least:,} to {most:,} per rank").format(least=least, most=most)
    kinds = dict.fromkeys(rank.step_kind for rank in ranks if rank.steps)
    parts = [listed([number, *(_(KINDS.get(kind, kind)) for kind in kinds)])]
    lengths = [rank.step_ns for rank in ranks if rank.step_ns is not None]
    if lengths:
        parts.append(_lengths(round(median(lengths)), ranks))
    restarts = max(rank.restart for rank in record.ranks)
    if restarts:
        text = ngettext(
            "after {count:,} restart, with at most {steps:,} steps before",
            "after {count:,} restarts, with at most {steps:,} steps before",
            restarts,
        )
        last = set(map(id, ranks))
        before = max((rank.steps for rank in record.ranks if id(rank) not in last), default=0)
        parts.append(text.format(count=restarts, steps=before))
    return clauses(parts)


def _lengths(step_ns: int, ranks: Ranks) -> str:
    """With what four of five steps are in."""
    low = [rank.step_p10_ns for rank in ranks if rank.step_p10_ns is not None]
    high = [rank.step_p90_ns for rank in ranks if rank.step_p90_ns is not None]
    if not low or not high or min(low) == max(high):
        return _("median {median}").format(median=format_ns(step_ns))
    return _("median {median}, p10-p90 {interval}").format(
        median=format_ns(step_ns), interval=interval(format_ns(min(low)), format_ns(max(high)))
    )


def _levers(record: RunRecord, ranks: Ranks) -> str:
    """Those that changed something."""
    return clauses(
        _("{lever}: {what}").format(lever=name, what=clipped(what, NAME_LIMIT))
        for name, took, what in levers_of(record, ranks)
        if took
    )


def _waiting(ranks: Ranks) -> str:
    """Of the time of usual steps, over all ranks that used a loader."""
    known = [rank for rank in ranks if rank.batches and rank.step_mean_ns and rank.step_wait_ns is not None]
    whole_ns = sum(rank.step_mean_ns or 0 for rank in known)
    if not whole_ns:
        return ""
    share = percent(sum(rank.step_wait_ns or 0 for rank in known) / whole_ns)
    return _("waiting for the data loader takes {share} of a step").format(share=share)


def _slow(ranks: Ranks) -> str:
    """Ranks whose own time stands out, the slowest first."""
    timed = [rank for rank in ranks if rank.step_ns and rank.steps >= _ENOUGH_STEPS]
    if len(timed) < 2:
        return ""
    usual_ns = median_low(rank.step_ns or 0 for rank in timed)
    usual_wait_ns = median_low(rank.step_wait_ns or 0 for rank in timed)
    slow: list[tuple[float, int, str]] = []
    for rank in timed:
        ratio, wait_ns = (rank.step_ns or 0) / usual_ns, rank.step_wait_ns or 0
        if wait_ns - usual_wait_ns > (_STANDS_OUT - 1) * usual_ns:
            text = _("rank {rank} waits {wait} per step for data, the others {others}")
        elif ratio > _STANDS_OUT and (rank.step_p10_ns or 0) > usual_ns:  # nearly always, not now and then
            text = _("a step of rank {rank} takes {times:.2f} x as long as on the other ranks")
        else:
            continue
        known = {"rank": rank.rank, "wait": format_ns(wait_ns), "others": format_ns(usual_wait_ns), "times": ratio}
        slow.append((ratio, wait_ns, text.format(**known)))
    said = [text for _ratio, _wait_ns, text in sorted(slow, key=lambda rank: rank[:2], reverse=True)]
    left = len(said) - _MOST_SLOW
    more = ngettext("and {count:,} more rank", "and {count:,} more ranks", left).format(count=left)
    return clauses([*said[:_MOST_SLOW], *([more] if left > 0 else [])])


# --- windows ----------------------------------------------------------------------------------------------------------

Parts = Sequence[tuple[RankRecord, WindowRecord]]


def _windows(ranks: Ranks) -> list[tuple[tuple[int, int], Parts]]:
    """Each over all ranks, by restart and number."""
    by_window: dict[tuple[int, int], list[tuple[RankRecord, WindowRecord]]] = {}
    for rank in ranks:
        for window in rank.windows:
            by_window.setdefault((rank.restart, window.number), []).append((rank, window))
    return sorted(by_window.items(), key=lambda item: item[0])


def _window(restart: int, number: int, parts: Parts, ranks: int) -> str:
    lost: dict[str, list[int]] = {}
    for rank, window in parts:
        if window.state not in CAPTURED:
            lost.setdefault(window.state, []).append(rank.rank)
    windows = [window for _rank, window in parts]
    written = sum(window.state in CAPTURED for window in windows)
    said = [_steps_of(restart, number, parts, written, ranks)]
    slowdowns = [window.slowdown for window in windows if window.slowdown]
    if slowdowns and median(slowdowns) > _SLOWED:
        said.append(_("{times:.2f} x as long as the others").format(times=median(slowdowns)))
    if written:
        stall_ns = max(window.stall_ns for window in windows)  # of the rank that stood still for longest
        said.append(_("then {time} to hand over the trace").format(time=format_ns(stall_ns)))
        said.append(format_bytes(sum(window.size_bytes for window in windows)))
    return clauses([*said, *(_lost(why, lost_ranks) for why, lost_ranks in lost.items())])


def _steps_of(restart: int, number: int, parts: Parts, written: int, ranks: int) -> str:
    if number == TIMED:
        text = _("{time} of the job, not of steps")
        if ranks > 1:
            text = _("{time} of the job, not of steps, on {written:,} of {ranks:,} ranks")
        length_ns = max(window.length_ns for _rank, window in parts)
        return text.format(time=format_ns(length_ns), written=written, ranks=ranks)
    first = min(window.first_step for _rank, window in parts)
    # The last step of a window that was cut short may never have ended.
    last = max(min(window.first_step + window.steps, rank.steps + 1) for rank, window in parts) - 1
    if last < first:
        return _("no step")
    span = f"{first:,}" if first == last else f"{first:,}-{last:,}"
    text = _("steps {steps}")
    if restart:
        text = _("steps {steps} after restart {restart}")
    if ranks > 1:
        text = _("steps {steps} on {written:,} of {ranks:,} ranks")
        if restart:
            text = _("steps {steps} after restart {restart} on {written:,} of {ranks:,} ranks")
    return text.format(steps=span, restart=restart, written=written, ranks=ranks)


def _lost(why: str, ranks: Sequence[int]) -> str:
    text = ngettext("no trace of rank {ranks}: {why}", "no trace of ranks {ranks}: {why}", len(ranks))
    return text.format(ranks=rank_list(ranks), why=_(LOST.get(why, why)))


def _digests(made: DigestsRecord) -> str:
    parts = [_("{written:,} of {all:,}").format(written=made.written, all=made.written + made.failed + made.missed)]
    if made.written:
        text = _("{size} and {time} of CPU time each, at idle priority")
        size, time = format_bytes(made.size_bytes // made.written), format_ns(made.cpu_ns // made.written)
        parts.append(text.format(size=size, time=time))
    if made.deleted:
        text = ngettext("{count:,} trace deleted", "{count:,} traces deleted", made.deleted)
        parts.append(text.format(count=made.deleted))
    return clauses(parts)
