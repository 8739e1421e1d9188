"""A job that stands still, while it does: who holds it up, and where each rank stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redline.capture.supervisor.stall import Stall, Standing
from redline.report.document import Document, Heading, Items
from redline.report.language import _, clauses, marked, ngettext
from redline.report.text_parts import clipped, rank_list
from redline.units import format_ns

_NS = 1_000_000_000
_MOST_PLACES = 8  # at which ranks stand
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


def document_of_stall(stall: Stall, path: str) -> Document:
    """Ranks at the same place stand together; `path` is where all stacks are, "" for nowhere."""
    places = _places(stall.ranks)
    more = len(places) - _MOST_PLACES
    lines = [_place(standing, ranks) for standing, ranks in places[:_MOST_PLACES]]
    if more > 0:
        lines.append(ngettext("{count:,} more place", "{count:,} more places", more).format(count=more))
    if stall.recordings:
        files = clipped(", ".join(stall.recordings), 300)
        lines.append(_("written by NCCL's flight recorder: {files}").format(files=files))
    if path:
        lines.append(_("all stacks: {path}").format(path=path))
    quiet_s = {rank.rank: rank.quiet_s for rank in stall.ranks}
    said = standstill(stall.after_s, stall.held_by, quiet_s)
    return Document(blocks=((Heading(text=f"redline: {said}"), Items(items=tuple(lines), rest="    ")),))


def _places(ranks: Sequence[Standing]) -> list[tuple[Standing, list[int]]]:
    """The rarest place first: who stands alone is of most interest."""
    by_place: dict[tuple[int, str, str, str], tuple[Standing, list[int]]] = {}
    for standing in ranks:
        where = (standing.steps, standing.state, standing.user, standing.where)
        by_place.setdefault(where, (standing, []))[1].append(standing.rank)
    return sorted(by_place.values(), key=lambda place: (len(place[1]), place[1]))


def _place(standing: Standing, ranks: Sequence[int]) -> str:
    text = ngettext(
        "rank {ranks}: {state}, {steps:,} steps done", "ranks {ranks}: {state}, {steps:,} steps done", len(ranks)
    )
    state = _(STATES.get(standing.state, standing.state))
    parts = [text.format(ranks=rank_list(ranks), state=state, steps=standing.steps)]
    if standing.user:
        parts.append(clipped(standing.user, 200))
    if standing.where and standing.where != standing.user:
        parts.append(_("inside {place}").format(place=clipped(standing.where, 200)))
    return clauses(parts)
