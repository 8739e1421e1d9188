"""The result of `diagnose` as Markdown, as GitHub and GitLab show it: the first screen and the tables asked for."""

import re
from collections.abc import Iterable, Iterator, Sequence

from redline.analysis.job.combine import Diagnosis
from redline.analysis.job.outline import Outline
from redline.report.diagnose_screen import Line, Screen, screen_of
from redline.report.diagnose_tables import TABLES, Shown
from redline.report.diagnose_words import NO_ROWS
from redline.trace.job import Failure

_BAR_WIDTH = 40
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$@&])")


def render(
    diagnosis: Diagnosis,
    outline: Outline,
    failures: Sequence[Failure] = (),
    *,
    tables: Sequence[str] = (),
    verbose: bool = False,
) -> str:
    screen = screen_of(diagnosis, outline, failures)
    blocks = [
        [f"## {escaped(screen.headline)}"],
        list(_table(("", ""), ((label, escaped(text)) for label, text in screen.facts), numbers=())),
        *_waterfall(screen),
        *_listed("Largest accounts above the redline", (f"**{a}**: {escaped(t)}" for a, t in screen.losses), "1."),
        *_listed("Not seen", map(escaped, screen.unseen), "-"),
        *(block for name in tables for block in _shown(TABLES[name](diagnosis, verbose=verbose))),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is; names come from strangers' traces."""
    return _SPECIAL.sub(r"\\\1", text)


def _waterfall(screen: Screen) -> Iterator[list[str]]:
    if not screen.waterfall:
        return
    yield ["### The average step of a rank, from the redline (math) up to what was measured"]
    rows = [(line.account, f"{line.time} {screen.unit}", line.share, f"`{_bar(line)}`") for line in screen.waterfall]
    rows.append(("**= step**", f"**{screen.step} {screen.unit}**", "", ""))
    yield list(_table(("account", "time", "share", ""), rows, numbers=(1, 2)))
    if screen.rest:
        yield [f"{screen.rest.capitalize()}."]


def _bar(line: Line) -> str:
    """Light before the account starts: leading blanks would not be shown."""
    start, end = round(line.start * _BAR_WIDTH), round(line.end * _BAR_WIDTH)
    start = min(start, _BAR_WIDTH - 1)
    return "░" * start + "█" * max(end - start, 1)


def _listed(title: str, items: Iterable[str], mark: str) -> Iterator[list[str]]:
    lines = [f"{mark} {item}" for item in items]
    if lines:
        yield [f"### {title}"]
        yield lines


def _shown(shown: Shown) -> Iterator[list[str]]:
    yield [f"### {shown.title.capitalize()}"]
    if shown.rows:
        cells = [tuple(map(escaped, row)) for row in shown.rows]
        numbers = [
            place
            for place in range(len(shown.head))
            if all(row[place][:1].isdigit() or row[place] == "-" for row in shown.rows)
        ]
        yield list(_table(shown.head, cells, numbers))
    yield [f"- {escaped(note)}" for note in (shown.notes if shown.rows else [NO_ROWS[shown.title]])]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "|".join("---:" if place in numbers else "---" for place in range(len(head))) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
