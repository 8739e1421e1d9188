"""What-ifs and the critical path as a panel of the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from redline.findings.replayed import PathPart, ReplayedJob
from redline.report.diagnose.replay_messages import beside_text
from redline.report.diagnose.replay_tables import operator_text, phase_text, what_if_table
from redline.report.html.diagnose import account_names
from redline.report.language import _
from redline.report.text_parts import percent
from redline.units import format_ns

_MOST_BESIDE = 3


@dataclass(frozen=True, kw_only=True)
class PathBar:
    """A part of the critical path; its width in percent of that path."""

    code: str  # of its colour, of an account; "" of anything else
    name: str
    time: str
    share: str
    percent: float


@dataclass(frozen=True, kw_only=True)
class ReplayPanel:
    """All that the panel shows."""

    asked: bool  # scenarios were given: their answers come first
    explained: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    accounts: tuple[PathBar, ...]
    tables: tuple[tuple[str, tuple[PathBar, ...]], ...]  # title and parts
    beside: tuple[str, ...]  # what of the device is not on the path, and how much longer it could take


def replay_panel(replayed: ReplayedJob) -> ReplayPanel:
    table = what_if_table(replayed)
    path = replayed.path
    if path is None:
        groups = []
    else:
        groups = [
            (_("By phase"), _bars(path.phases, phase_text)),
            (_("By operator or kernel"), _bars(path.operators, operator_text)),
            (_("By rank"), _bars(path.ranks, lambda rank: _("rank {rank}").format(rank=rank))),
        ]
    return ReplayPanel(
        asked=bool(replayed.asked),
        explained=_sentence(table.notes[0]),
        head=table.head,
        rows=tuple((row[0].replace("  ", "\u2003", 1), *row[1:]) for row in table.rows),  # pages fold blanks
        accounts=() if path is None else _bars(path.accounts, account_names.name, coloured=True),
        tables=tuple((title, bars) for title, bars in groups if bars),
        beside=() if path is None else tuple(map(_sentence, map(beside_text, path.beside[:_MOST_BESIDE]))),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _bars(parts: Sequence[PathPart], named: Callable[[str], str], *, coloured: bool = False) -> tuple[PathBar, ...]:
    return tuple(
        PathBar(
            code=account_names.code(part.what) if coloured else "",
            name=named(part.what),
            time=format_ns(round(part.time_ns)),
            share=percent(part.share),
            percent=round(100 * part.share, 2),
        )
        for part in parts
    )
