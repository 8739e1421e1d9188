"""What was noted of a run, the gravest first: in words, and what processes said in the language that is spoken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from redline.capture.run_record import RankRecord, RunRecord
from redline.report.language import _, marked, ngettext, translate_rendered
from redline.report.run.stall import standstill
from redline.report.text_parts import clipped, rank_list

NAME_LIMIT = 60
LOST: Mapping[str, str] = {
    "no space": marked("no space on the disk, or in --max-disk"),
    "incomplete": marked("the profiler's output is incomplete"),
    "failed": marked("it could not be written"),
    "killed": marked("killed before it was written"),
}
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


def translated_note(text: str) -> str:
    return clipped(translate_rendered(text, TOLD), 300)


def levers_of(record: RunRecord, ranks: Sequence[RankRecord]) -> Iterator[tuple[str, bool, str]]:
    """The changes that the job was to run with: whether each took, and what it did or why it did nothing.

    The first rank tells of them.
    """
    told = ranks[0].facts.get("kept levers", ()) if ranks else ()
    for at, name in enumerate(record.settings.get("kept_levers") or ()):
        took, what = told[at] if at < len(told) else (False, "no step was taken")
        yield str(name), bool(took), str(what)


def notes_of(record: RunRecord, ranks: Sequence[RankRecord]) -> Iterator[str]:
    """`ranks` are those of the last attempt."""
    yield from map(translated_note, record.notes)
    for name, took, what in levers_of(record, ranks):
        if not took:
            yield _("lever {lever} changed nothing: {why}").format(lever=name, why=clipped(what, NAME_LIMIT))
    if ranks:
        yield from _of_ranks(record, ranks)
    elif not record.notes:
        yield _("no process of the job was watched: it did not start Python, or started it with -S, -I or -E")
    yield from _of_processes(record, len(ranks))
    yield from _of_windows(record, max((rank.steps for rank in ranks), default=0))
    for number, stall in enumerate(record.stalls, start=1):
        quiet_s = {of_rank["rank"]: of_rank["quiet_s"] for of_rank in stall.get("ranks", ())}
        text = standstill(stall.get("after_s", 0.0), stall.get("held_by", ()), quiet_s)
        yield _("{text}: stall-{number}.txt").format(text=text, number=number)


def _of_ranks(record: RunRecord, ranks: Sequence[RankRecord]) -> Iterator[str]:
    missing = record.world - len({rank.rank for rank in record.ranks})
    if missing > 0:
        text = ngettext("no data from {count:,} rank", "no data from {count:,} ranks", missing)
        yield text.format(count=missing)
    unfinished = [rank.rank for rank in ranks if not rank.finished]
    if unfinished:
        yield ngettext(
            "rank {ranks} did not exit normally: killed, or ended by os._exit",
            "ranks {ranks} did not exit normally: killed, or ended by os._exit",
            len(unfinished),
        ).format(ranks=rank_list(unfinished))
    if not any("versions" in rank.facts for rank in ranks):
        yield _("the job did not import torch, so nothing could be captured")
    elif not any(rank.steps for rank in ranks):
        yield _(
            "no steps recognised: no optimizer stepped, and no model was called often enough to tell steps by its "
            "calls; mark the end of a step with redline.step()"
        )


def _of_processes(record: RunRecord, ranks: int) -> Iterator[str]:
    """The same note of several ranks is one; its text is that of the first."""
    by_code: dict[str, tuple[str, set[int]]] = {}
    for rank in record.ranks:
        for note in rank.notes:
            by_code.setdefault(str(note.get("code", "")), (str(note.get("text", "")), set()))[1].add(rank.rank)
    for code, (said, of_ranks) in by_code.items():
        text = _(NOTES[code]) if code in NOTES else translated_note(said)
        if code == "failed":
            text = _("capturing failed, and the job went on: {why}").format(why=text)
        if ranks > 1 and len(of_ranks) < ranks:
            text = _("{text} (rank {ranks})").format(text=text, ranks=rank_list(of_ranks))
        yield text


def _of_windows(record: RunRecord, steps: int) -> Iterator[str]:
    """Why there is none, where the settings are the reason."""
    settings = record.settings
    if any(rank.windows for rank in record.ranks) or not steps:
        return
    after, condition = int(settings.get("after", 0)), str(settings.get("when") or "")
    if condition:
        text = _("--when '{condition}' was never met, so nothing was captured")
        yield text.format(condition=clipped(condition, NAME_LIMIT))
    elif settings.get("capture", True) and steps <= after + 1:
        text = _("the job ended before the first window, which starts after {after:,} steps: try --after {least}")
        yield text.format(after=after, least=max(0, steps - 1 - int(settings.get("steps", 0))))
