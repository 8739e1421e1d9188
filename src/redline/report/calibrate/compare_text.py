"""Two calibrations side by side as text: the figures to plan with, whatever differs, and what only one has."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from redline.probes.calibration_record import FAMILIES
from redline.probes.compare import CalibrationFigure, Comparison, ComparisonVerdict, Row
from redline.report.calibrate import messages as say
from redline.report.calibrate.text import fact, joined
from redline.report.display import columns
from redline.report.language import _, clauses, listed, marked, ngettext
from redline.report.terminal import headline, wrapped
from redline.report.text_parts import clipped
from redline.report.text_table import table

_MOST_POINTS = 12  # of one family, that differ
_MOST_NAMED = 10  # that only one has
VERDICTS: Mapping[ComparisonVerdict, str] = {
    ComparisonVerdict.SAME: marked("same"),
    ComparisonVerdict.FASTER: marked("faster"),
    ComparisonVerdict.SLOWER: marked("slower"),
    ComparisonVerdict.DIFFERENT: marked("different"),
}


def render(comparison: Comparison, *, unicode: bool = True) -> str:
    """Without `unicode`, intervals are marked with a letter that every terminal has."""
    blocks = [
        list(_head(comparison)),
        *(list(_family(family, comparison.rows)) for family in FAMILIES),
        [line for only in only_lines(comparison) for line in wrapped(only, columns(), "", "  ")],
    ]
    return joined(blocks, unicode=unicode)


def _head(comparison: Comparison) -> Iterator[str]:
    yield from headline(summary(comparison))
    for label, side in (("A", comparison.first), ("B", comparison.second)):
        yield from fact(label, say.headline(side))
        yield from fact("", say.noise(side.conditions))
    yield from fact(_("software"), changed_software(comparison))
    yield from fact(_("note"), not_in_turns())


def not_in_turns() -> str:
    """What is to be known before a difference is believed."""
    return _("the two were not measured in turns, so what else the machines did then is part of each difference")


def summary(comparison: Comparison) -> str:
    """How many figures are the same, and how many are not."""
    counts = Counter(row.verdict for row in comparison.rows)
    if not comparison.rows:
        return _("the two calibrations have no figure in common")
    if set(counts) == {ComparisonVerdict.SAME}:
        return _("B is the same as A within the intervals, in all {count} figures").format(count=len(comparison.rows))
    named = {verdict: _(VERDICTS[verdict]) for verdict in ComparisonVerdict}
    told = listed(f"{counts[verdict]} {named[verdict]}" for verdict in ComparisonVerdict if counts[verdict])
    return _("B against A, {count} figures: {told}").format(count=len(comparison.rows), told=told)


def changed_software(comparison: Comparison) -> str:
    """Only what differs: a new version explains more than anything else."""
    in_first, in_second = (dict(side.subject.software) for side in (comparison.first, comparison.second))
    changed = [name for name in {**in_first, **in_second} if in_first.get(name) != in_second.get(name)]
    return clauses(
        _("{name} {first} in A, {second} in B").format(
            name=clipped(name, 40),
            first=clipped(in_first.get(name) or _("none"), 40),
            second=clipped(in_second.get(name) or _("none"), 40),
        )
        for name in changed
    )


# --- a family ---------------------------------------------------------------------------------------------------------


def _family(family: str, rows: Sequence[Row]) -> Iterator[str]:
    """The main figures, then the points of curves that differ."""
    own = [row for row in rows if row.family == family]
    if not own:
        return
    points = [row for row in own if not row.is_main]
    differing = sorted((row for row in points if row.verdict is not ComparisonVerdict.SAME), key=_by_size_of_change)
    shown = [*(row for row in own if row.is_main), *differing[:_MOST_POINTS]]
    head = (say.named(say.FAMILIES, family), "A", "B", _("B / A"), "")
    lines = [(f"  {name}", *rest) for name, *rest in map(cells, shown)]
    yield from table(head, lines) if shown else [head[0]]
    more = len(differing) - _MOST_POINTS
    if more > 0:
        yield "  " + _("{count} more points differ; --json lists all").format(count=more)
    same = len(points) - len(differing)
    if same:
        yield "  " + _("{count} of {all} points of its curves are the same").format(count=same, all=len(points))


def _by_size_of_change(row: Row) -> float:
    return -max(row.ratio, 1 / row.ratio if row.ratio else float("inf"))


def cells(row: Row) -> tuple[str, ...]:
    """Name, both values, their ratio, and the verdict."""
    return (
        say.quantity(row.quantity, row.of),
        say.figure(row.first, row.unit),
        say.figure(row.second, row.unit),
        "-" if row.finite_ratio is None else f"{row.finite_ratio:.2f}",
        _(VERDICTS[row.verdict]),
    )


def only_lines(comparison: Comparison) -> list[str]:
    """What only one of them has."""
    sides = (("A", comparison.only_first), ("B", comparison.only_second))
    return [_only(label, figures) for label, figures in sides if figures]


def _only(label: str, figures: Sequence[CalibrationFigure]) -> str:
    names = [
        say.quantity(calibration_figure.quantity, calibration_figure.of)
        for calibration_figure in figures
        if calibration_figure.is_main
    ]
    parts = [*names[:_MOST_NAMED], *([_others(len(names) - _MOST_NAMED)] if len(names) > _MOST_NAMED else [])]
    points = len(figures) - len(names)
    if points:
        parts.append(ngettext("{count} point of a curve", "{count} points of curves", points).format(count=points))
    return _("only in {label}: {names}").format(label=label, names=listed(parts))


def _others(count: int) -> str:
    return ngettext("{count} other figure", "{count} other figures", count).format(count=count)
