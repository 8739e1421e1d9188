"""Runs in words: how one ended, its steps, what was captured of it, what was noted, and who stands where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from redline.capture.captured import TIMED
from redline.capture.run_record import DigestsRecord
from redline.report import counted_nouns
from redline.report.language import _, clauses, listed, marked, ngettext, translate_rendered
from redline.report.run.screen import NoteSeen, RunLever, RunScreen, SlowRank, WindowSeen
from redline.report.text_parts import clipped, interval, percent, rank_list
from redline.units import format_bytes, format_ns

_NS = 1_000_000_000
_NAME_LIMIT = 60
_TORCHRUN = ("-m", "torch.distributed.run")
_SLOWED = 1.05  # below it, recording is not said to have made steps longer


# --- how it ended -----------------------------------------------------------------------------------------------------


def headline(screen: RunScreen) -> str:
    """What ran, on how many ranks, and how it ended."""
    who = counted_nouns.ranks(screen.ranks)
    if screen.missing:
        who = _("{ranks} of {world:,}").format(ranks=who, world=screen.world)
    text = _("{command}: {ranks}, exit code {code} after {time}")
    if screen.signal is not None:
        text = _("{command}: {ranks}, ended by {signal} after {time}")
    return text.format(
        command=_command(screen.command),
        ranks=who,
        code=screen.exit_code,
        signal=screen.signal,
        time=format_ns(screen.wall_ns),
    )


def _command(command: Sequence[str]) -> str:
    words = list(command[1:])
    for at, pair in enumerate(pairwise(words)):
        if pair == _TORCHRUN:
            words[: at + 2] = ["torchrun"]
            break
    return clipped(" ".join(words), _NAME_LIMIT)


# --- steps ------------------------------------------------------------------------------------------------------------

KINDS: Mapping[str, str] = {
    "optimizer": marked("counted from optimizer steps"),
    "calls": marked("counted from model calls"),
    "by hand": marked("counted from redline.step()"),
}


def steps(screen: RunScreen) -> str:
    least, most = screen.steps
    number = f"{most:,}" if least == most else _("{least:,} to {most:,} per rank").format(least=least, most=most)
    parts = [listed([number, *(_(KINDS.get(kind, kind)) for kind in screen.kinds)])]
    if screen.step_ns is not None:
        parts.append(_lengths(screen.step_ns, screen.spread_ns))
    if screen.restarts:
        parts.append(_restarted(screen))
    return clauses(parts)


def _lengths(step_ns: int, spread_ns: tuple[int, int] | None) -> str:
    if spread_ns is None or spread_ns[0] == spread_ns[1]:
        return _("median {median}").format(median=format_ns(step_ns))
    return _("median {median}, p10-p90 {interval}").format(
        median=format_ns(step_ns), interval=interval(*map(format_ns, spread_ns))
    )


def _restarted(screen: RunScreen) -> str:
    return ngettext(
        "after {count:,} restart, with at most {steps:,} steps before",
        "after {count:,} restarts, with at most {steps:,} steps before",
        screen.restarts,
    ).format(count=screen.restarts, steps=screen.steps_before)


def waiting(share: float) -> str:
    return _("waiting for the data loader takes {share} of a step").format(share=percent(share))


def slow(screen: RunScreen) -> str:
    said = clauses(map(_slow_rank, screen.slow))
    if not screen.more_slow:
        return said
    more = ngettext("and {count:,} more rank", "and {count:,} more ranks", screen.more_slow)
    return clauses([said, more.format(count=screen.more_slow)])


def _slow_rank(slow_rank: SlowRank) -> str:
    if slow_rank.is_waiting:
        text = _("rank {rank} waits {wait} per step for data, the others {others}")
        return text.format(
            rank=slow_rank.rank, wait=format_ns(slow_rank.wait_ns), others=format_ns(slow_rank.others_wait_ns)
        )
    return _("a step of rank {rank} takes {times:.2f} x as long as on the other ranks").format(
        rank=slow_rank.rank, times=slow_rank.step_ratio
    )


def memory(rank: int, peak_bytes: int, *, ranks: int) -> str:
    if ranks == 1:
        return _("at most {peak} in the process").format(peak=format_bytes(peak_bytes))
    return _("at most {peak} in a process, rank {rank}").format(peak=format_bytes(peak_bytes), rank=rank)


# --- windows ----------------------------------------------------------------------------------------------------------

LOST: Mapping[str, str] = {
    "no space": marked("no space on the disk, or in --max-disk"),
    "incomplete": marked("the profiler's output is incomplete"),
    "failed": marked("it could not be written"),
    "killed": marked("killed before it was written"),
}


def earlier(windows: int) -> str:
    return ngettext("{count:,} earlier window", "{count:,} earlier windows", windows).format(count=windows)


def window(seen: WindowSeen, ranks: int) -> str:
    parts = [_steps_of(seen, ranks)]
    if seen.slowdown is not None and seen.slowdown > _SLOWED:
        parts.append(_("{times:.2f} x as long as the others").format(times=seen.slowdown))
    if seen.written:
        parts.append(_("then {time} to hand over the trace").format(time=format_ns(seen.stall_ns)))
        parts.append(format_bytes(seen.size_bytes))
    parts += [_lost(why, lost) for why, lost in seen.lost]
    return clauses(parts)


def _steps_of(seen: WindowSeen, ranks: int) -> str:
    if seen.number == TIMED:
        text = _("{time} of the job, not of steps")
        if ranks > 1:
            text = _("{time} of the job, not of steps, on {written:,} of {ranks:,} ranks")
        return text.format(time=format_ns(seen.length_ns), written=seen.written, ranks=ranks)
    if not seen.steps:
        return _("no step")
    first, last = seen.steps[0], seen.steps[-1]
    span = f"{first:,}" if first == last else f"{first:,}-{last:,}"
    text = _("steps {steps}")
    if seen.restart:
        text = _("steps {steps} after restart {restart}")
    if ranks > 1:
        text = _("steps {steps} on {written:,} of {ranks:,} ranks")
        if seen.restart:
            text = _("steps {steps} after restart {restart} on {written:,} of {ranks:,} ranks")
    return text.format(steps=span, restart=seen.restart, written=seen.written, ranks=ranks)


def digests(made: DigestsRecord) -> str:
    parts = [_("{written:,} of {all:,}").format(written=made.written, all=made.written + made.failed + made.missed)]
    if made.written:
        text = _("{size} and {time} of CPU time each, at idle priority")
        size, time = format_bytes(made.size_bytes // made.written), format_ns(made.cpu_ns // made.written)
        parts.append(text.format(size=size, time=time))
    if made.deleted:
        text = ngettext("{count:,} trace deleted", "{count:,} traces deleted", made.deleted)
        parts.append(text.format(count=made.deleted))
    return clauses(parts)


def _lost(why: str, ranks: Sequence[int]) -> str:
    text = ngettext("no trace of rank {ranks}: {why}", "no trace of ranks {ranks}: {why}", len(ranks))
    return text.format(ranks=rank_list(ranks), why=_(LOST.get(why, why)))


# --- notes ------------------------------------------------------------------------------------------------------------

NOTES: Mapping[str, str] = {
    "profiler-taken": marked("the script was running its own profiler, so nothing was captured meanwhile"),
    "no-opportunity": marked("no steps were recognised, and nothing was captured instead: the main thread only waited"),
    "no-room": marked("the process was too near to a limit of its memory, so nothing was captured"),
    "no-threads": marked(
        "the process's memory is limited (ulimit -v or -d), so no thread watches: no stack samples, no timed window, "
        "and a window is lost where the process is asked to end"
    ),
    "no-stacks": marked(
        "the process may have few files open (ulimit -n), so none is kept for the stacks that a hang would be asked for"
    ),
    "budget": marked("some windows were skipped: they would cost more of the run than --budget allows"),
}
"""By the code of a note; other notes keep the words of the process."""

TOLD: Sequence[str] = (
    marked("window {number} was cut short: the script started its own profiler"),
    marked("window {number} was cut short: the process was asked to end"),
    marked("window {number} was cut short: the process ended"),
    marked("window {number} was cut short: the training thread ended"),
    marked("window {number} was cut short: it took more memory than --max-memory allows"),
    marked("window {number} was cut short: the process comes near its memory limit"),
    marked("no more windows after {count} failures in a row"),
    marked("no shared memory available; the job ran unwatched"),
    marked("nothing was captured: {folder} cannot be written ({why})"),
    marked("watching failed, which is a bug in Redline: {error}"),
    marked("the record of the run could not be written: {error}"),
    marked("digests: {rank}: {why}; its trace is kept"),
    marked("digests: {rank}: its trace is damaged ({why}), and is kept"),
    marked("digests: no more after {count} failures in a row"),
    marked("digests: no more, as they take as much of the disk as they may"),
    marked("digests: traces that made room for newer ones before: {count}"),
    marked("digests: {count} not made in the time after the job (at most {time} s); the traces are kept"),
)
"""What processes and the watcher say."""


def levers(known: Sequence[RunLever]) -> str:
    """Those that changed something."""
    return clauses(
        _("{lever}: {what}").format(lever=lever.name, what=clipped(lever.what, _NAME_LIMIT))
        for lever in known
        if lever.took
    )


def notes(screen: RunScreen) -> Iterator[str]:
    """Everything that is not as one might wish, the gravest first."""
    yield from (translated_note(text) for text in screen.of_the_run)
    for lever in screen.levers:
        if not lever.took:
            yield _("lever {lever} changed nothing: {why}").format(
                lever=lever.name, why=clipped(lever.what, _NAME_LIMIT)
            )
    if screen.ranks:
        yield from _of_ranks(screen)
    elif not screen.of_the_run:
        yield _("no process of the job was watched: it did not start Python, or started it with -S, -I or -E")
    yield from (_note(note_seen, screen.ranks) for note_seen in screen.notes)
    yield from _of_windows(screen)
    yield from (_stalled(number, stall) for number, stall in enumerate(screen.stalls, start=1))


def _of_ranks(screen: RunScreen) -> Iterator[str]:
    if screen.missing:
        yield ngettext("no data from {count:,} rank", "no data from {count:,} ranks", screen.missing).format(
            count=screen.missing
        )
    if screen.unfinished:
        yield ngettext(
            "rank {ranks} did not exit normally: killed, or ended by os._exit",
            "ranks {ranks} did not exit normally: killed, or ended by os._exit",
            len(screen.unfinished),
        ).format(ranks=rank_list(screen.unfinished))
    if len(screen.without_torch) == screen.ranks:
        yield _("the job did not import torch, so nothing could be captured")
    elif not screen.steps[1]:
        yield _(
            "no steps recognised: no optimizer stepped, and no model was called often enough to tell steps by its "
            "calls; mark the end of a step with redline.step()"
        )


def _of_windows(screen: RunScreen) -> Iterator[str]:
    if screen.after is not None:
        yield _(
            "the job ended before the first window, which starts after {after:,} steps: try --after {least}"
        ).format(after=screen.after, least=screen.least_after)
    if screen.condition and screen.steps[1]:
        yield _("--when '{condition}' was never met, so nothing was captured").format(
            condition=clipped(screen.condition, _NAME_LIMIT)
        )


def _note(note_seen: NoteSeen, ranks: int) -> str:
    text = _(NOTES[note_seen.code]) if note_seen.code in NOTES else translated_note(note_seen.text)
    if note_seen.code == "failed":
        text = _("capturing failed, and the job went on: {why}").format(why=text)
    if ranks > 1 and len(note_seen.ranks) < ranks:
        return _("{text} (rank {ranks})").format(text=text, ranks=rank_list(note_seen.ranks))
    return text


def translated_note(text: str) -> str:
    return clipped(translate_rendered(text, TOLD), 300)


def more_notes(count: int) -> str:
    return ngettext("{count:,} more note, in run.json", "{count:,} more notes, in run.json", count).format(count=count)


def _stalled(number: int, stall: Mapping[str, Any]) -> str:
    quiet_s = {of_rank["rank"]: of_rank["quiet_s"] for of_rank in stall.get("ranks", ())}
    text = standstill(stall.get("after_s", 0.0), stall.get("held_by", ()), quiet_s)
    return _("{text}: stall-{number}.txt").format(text=text, number=number)


# --- standing still ---------------------------------------------------------------------------------------------------

STATES: Mapping[str, str] = {
    "running": marked("running"),
    "sleeping": marked("sleeping"),
    "stopped": marked("stopped"),
    "waiting for a disk": marked("waiting for a disk"),
    "gone": marked("gone"),
}


def standstill(after_s: float, held_by: Sequence[int], quiet_s: Mapping[int, float]) -> str:
    """`quiet_s` is by rank, since its last step."""
    time = format_ns(round(after_s * _NS))
    stuck = [rank for rank, one_s in quiet_s.items() if 2 * one_s > after_s]
    if len(quiet_s) <= 1:
        return _("no step for {time}").format(time=time)
    if 0 < len(stuck) < len(quiet_s):
        text = ngettext(
            "no step for {time} on rank {ranks}; the others go on",
            "no step for {time} on ranks {ranks}; the others go on",
            len(stuck),
        )
        return text.format(time=time, ranks=rank_list(stuck))
    if len(held_by) >= len(quiet_s):
        return _("no step for {time}; no rank stands out").format(time=time)
    return ngettext(
        "no step for {time}; the others seem to wait for rank {ranks}",
        "no step for {time}; the others seem to wait for ranks {ranks}",
        len(held_by),
    ).format(time=time, ranks=rank_list(held_by))


def standing(ranks: str, count: int, after_steps: int, state: str) -> str:
    return ngettext(
        "rank {ranks}: {state}, {steps:,} steps done", "ranks {ranks}: {state}, {steps:,} steps done", count
    ).format(ranks=ranks, state=_(STATES.get(state, state)), steps=after_steps)


def more_places(count: int) -> str:
    return ngettext("{count:,} more place", "{count:,} more places", count).format(count=count)


def recordings(paths: Sequence[str]) -> str:
    return _("written by NCCL's flight recorder: {files}").format(files=clipped(", ".join(paths), 300))
