"""A run that is over, on one screen; and a job that stands still, while it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from redline.capture.captured import TIMED
from redline.capture.run_record import RunRecord
from redline.capture.supervisor.stall import Stall, Standing
from redline.report.display import columns, most_lines
from redline.report.language import _, clauses
from redline.report.run import run_messages as say
from redline.report.run.screen import RunScreen, run_screen
from redline.report.terminal import as_text, headline, labelled, left, wrapped
from redline.report.text_parts import clipped, rank_list

MOST_LINES = 20
_LABEL_WIDTH = 9
_MOST_PLACES = 8  # at which ranks stand


def render(record: RunRecord, folder: Path | None) -> str:
    """How it ended, steps, ranks that stand out, what was captured, what went wrong, and where the files are."""
    screen = run_screen(record)
    before = [*_head(say.headline(screen)), *_rows(_facts(screen))]
    after = _rows([(_("folder"), _shown(folder))]) if folder is not None else []
    notes = _within(list(say.notes(screen)), most_lines(MOST_LINES) - len(before) - len(after))
    return as_text([[*before, *notes, *after]])


def _facts(screen: RunScreen) -> Iterator[tuple[str, str]]:
    if screen.steps[1]:
        yield _("steps"), say.steps(screen)
    if any(lever.took for lever in screen.levers):
        yield _("levers"), say.levers(screen.levers)
    if screen.waiting_share is not None:
        yield _("input"), say.waiting(screen.waiting_share)
    if screen.slow:
        yield _("slow"), say.slow(screen)
    if screen.earlier_windows:
        yield _("captured"), say.earlier(screen.earlier_windows)
    for window in screen.windows:
        label = _("timed") if window.number == TIMED else _("window {number}").format(number=window.number)
        yield label, say.window(window, screen.ranks)
    if screen.digests is not None:
        yield _("digests"), say.digests(screen.digests)
    if screen.peak is not None:
        yield _("peak"), say.memory(*screen.peak, ranks=screen.ranks)


def _rows(facts: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> list[str]:
    return [line for label, text in facts for line in labelled(f"{left(label, _LABEL_WIDTH)} ", text, indent="  ")]


def _head(text: str) -> list[str]:
    return headline(f"redline: {text}")


def _within(notes: Sequence[str], room: int) -> list[str]:
    """As many notes as there is room for, and how many there are besides."""
    lines: list[str] = []
    for number, note in enumerate(notes):
        more = _rows([(_("note"), note)])
        is_last = number + 1 == len(notes)
        if len(lines) + len(more) + (0 if is_last else 1) > room:
            return [*lines, *_rows([(_("note"), say.more_notes(len(notes) - number))])]
        lines += more
    return lines


def _shown(path: Path) -> str:
    with suppress(ValueError, OSError):  # it is elsewhere, or the folder that we are in is gone
        path = path.relative_to(Path.cwd())
    return clipped(str(path), 400)


# --- a stall ----------------------------------------------------------------------------------------------------------


def render_stall(stall: Stall, path: Path | None) -> str:
    """Who holds the job up, and where each rank stands; ranks at the same place stand together."""
    quiet_s = {rank.rank: rank.quiet_s for rank in stall.ranks}
    lines = _head(say.standstill(stall.after_s, stall.held_by, quiet_s))
    places = _places(stall.ranks)
    for standing, ranks in places[:_MOST_PLACES]:
        lines += wrapped(_place(standing, ranks), columns(), "  ", "    ")
    if len(places) > _MOST_PLACES:
        lines += [f"  {say.more_places(len(places) - _MOST_PLACES)}"]
    if stall.recordings:
        lines += wrapped(say.recordings(stall.recordings), columns(), "  ", "    ")
    if path is not None:
        lines += wrapped(_("all stacks: {path}").format(path=_shown(path)), columns(), "  ", "    ")
    return as_text([lines])


def _places(ranks: Sequence[Standing]) -> list[tuple[Standing, list[int]]]:
    """The rarest place first: who stands alone is of most interest."""
    by_place: dict[tuple[int, str, str, str], tuple[Standing, list[int]]] = {}
    for standing in ranks:
        by_place.setdefault((standing.steps, standing.state, standing.user, standing.where), (standing, []))[1].append(
            standing.rank
        )
    return sorted(by_place.values(), key=lambda place: (len(place[1]), place[1]))


def _place(standing: Standing, ranks: Sequence[int]) -> str:
    where = [clipped(standing.user, 200)] if standing.user else []
    if standing.where and standing.where != standing.user:
        where.append(_("inside {place}").format(place=clipped(standing.where, 200)))
    said = say.standing(rank_list(ranks), len(ranks), standing.steps, standing.state)
    return clauses([said, *where])
