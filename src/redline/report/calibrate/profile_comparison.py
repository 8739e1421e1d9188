"""Two calibrations beside each other: the same, faster or slower; docs/reference/calibrate.md describes the JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redline.calibration.calibration_record import FAMILIES, Calibration
from redline.calibration.compare import CalibrationFigure, Comparison, ComparisonVerdict, Row
from redline.report.calibrate import messages as say
from redline.report.data import csv_text, enveloped, picked, plain
from redline.report.document import Document, Heading, Items, LabelledLines, PageDocument, ReportTable, Section
from redline.report.language import _, clauses, listed, marked
from redline.report.shown_result import ShownResult
from redline.report.text_parts import clipped

_MOST_POINTS = 12  # of one family, that differ
_MOST_NAMED = 10  # that only one has
_CSV = (
    *("family", "quantity", "of", "unit", "first", "first_low", "first_high", "second", "second_low", "second_high"),
    *("difference", "ratio", "verdict"),
)
VERDICTS: Mapping[ComparisonVerdict, str] = {
    ComparisonVerdict.SAME: marked("same"),
    ComparisonVerdict.FASTER: marked("faster"),
    ComparisonVerdict.SLOWER: marked("slower"),
    ComparisonVerdict.DIFFERENT: marked("different"),
}


@dataclass(frozen=True, kw_only=True)
class ProfileComparison(ShownResult):
    """Two calibrations held against each other; `synthetic` where one of them was made up."""

    comparison: Comparison
    synthetic: bool = False
    made_by: str = "redline calibrate --compare"

    def document(self, *, verbose: bool = False) -> Document:
        comparison = self.comparison
        facts = (
            ("A", say.headline(comparison.first)),
            ("", say.noise(comparison.first.conditions)),
            ("B", say.headline(comparison.second)),
            ("", say.noise(comparison.second.conditions)),
            (_("software"), changed_software(comparison)),
            (_("note"), not_in_turns()),
        )
        return Document(
            blocks=(
                (Heading(text=summary(comparison)), LabelledLines(lines=facts, indent="  ")),
                *(_family(family, comparison.rows) for family in FAMILIES),
                Items(items=tuple(only_lines(comparison)), mark="", rest="  "),
            )
        )

    def page(self) -> PageDocument:
        comparison = self.comparison
        sides = (comparison.first, comparison.second)
        own = (f"A: {say.headline(comparison.first)}", f"B: {say.headline(comparison.second)}")
        said = (*own, not_in_turns(), changed_software(comparison), *only_lines(comparison))
        rows = {family: [row for row in comparison.rows if row.family == family] for family in FAMILIES}
        shown = tuple(_table(family, own, _("verdict")) for family, own in rows.items() if own)
        return PageDocument(
            title=clipped(" / ".join(side.subject.name for side in sides), 80),
            headline=summary(comparison),
            said=tuple(filter(None, said)),
            sections=(Section(name="tables", link=_("Tables"), title=_("Tables"), blocks=shown),),
        )

    def record(self) -> dict[str, Any]:
        comparison = self.comparison
        content = {
            "interleaved": False,
            "first": _side(comparison.first),
            "second": _side(comparison.second),
            "rows": [_row(row) for row in comparison.rows],
            "only_first": [picked(figure, "family quantity of unit estimate") for figure in comparison.only_first],
            "only_second": [picked(figure, "family quantity of unit estimate") for figure in comparison.only_second],
        }
        return enveloped("calibration-comparison", 1, self.made_by, content, synthetic=self.synthetic)

    def csv(self) -> str:
        return csv_text(_CSV, map(_csv_row, self.comparison.rows))


def _side(calibration: Calibration) -> dict[str, Any]:
    named = {"name": calibration.subject.name, "host": calibration.subject.host}
    return {**named, **picked(calibration, "date seconds quick"), "noisy": plain(calibration.conditions.noisy)}


def _row(row: Row) -> dict[str, Any]:
    ratio = {"ratio": row.finite_ratio, "verdict": str(row.verdict)}
    return {**picked(row, "family quantity of unit first second"), **ratio}


def _csv_row(row: Row) -> tuple[object, ...]:
    estimates = [number for side in (row.first, row.second) for number in (side.value, side.low, side.high)]
    difference = row.second.value - row.first.value
    return (row.family, row.quantity, row.of, row.unit, *estimates, difference, row.finite_ratio, str(row.verdict))


# --- in words ---------------------------------------------------------------------------------------------------------


def not_in_turns() -> str:
    return _("the two were not measured in turns, so what else the machines did then is part of each difference")


def summary(comparison: Comparison) -> str:
    """How many figures are the same, and how many are not."""
    counts = Counter(row.verdict for row in comparison.rows)
    if not comparison.rows:
        return _("the two calibrations have no figure in common")
    known = [(str(counts[verdict]), _(VERDICTS[verdict])) for verdict in ComparisonVerdict if counts[verdict]]
    told = listed(map(" ".join, known))
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


def _table(family: str, rows: Sequence[Row], verdict: str) -> ReportTable:
    return ReportTable(
        title=say.named(say.FAMILIES, family),
        head=(_("figure"), "A", "B", _("B / A"), verdict),
        rows=tuple(map(cells, rows)),
    )


def _family(family: str, rows: Sequence[Row]) -> tuple[ReportTable | Items, ...]:
    """The main figures, then the points of curves that differ."""
    own = [row for row in rows if row.family == family]
    points = [row for row in own if not row.is_main]
    differing = sorted((row for row in points if row.verdict is not ComparisonVerdict.SAME), key=_by_size_of_change)
    shown = [*(row for row in own if row.is_main), *differing[:_MOST_POINTS]]
    if not own:
        return ()
    table = _table(family, shown, "")
    indented = tuple((f"  {name}", *others) for name, *others in table.rows)
    headed = replace(table, title="", head=(table.title, *table.head[1:]), rows=indented)
    named = headed if indented else Items(items=(table.title,), mark="")
    return (named, Items(items=tuple(_left_out(len(points), len(differing)))))


def _left_out(points: int, differing: int) -> Iterator[str]:
    if differing > _MOST_POINTS:
        yield _("{count} more points differ; --json lists all").format(count=differing - _MOST_POINTS)
    if points > differing:
        yield _("{count} of {all} points of its curves are the same").format(count=points - differing, all=points)


def _by_size_of_change(row: Row) -> float:
    return -max(row.ratio, 1 / row.ratio if row.ratio else float("inf"))


def cells(row: Row) -> tuple[str, ...]:
    return (
        say.quantity(row.quantity, row.of),
        say.figure(row.first, row.unit),
        say.figure(row.second, row.unit),
        "-" if row.finite_ratio is None else f"{row.finite_ratio:.2f}",
        _(VERDICTS[row.verdict]),
    )


def only_lines(comparison: Comparison) -> list[str]:
    sides = (("A", comparison.only_first), ("B", comparison.only_second))
    return [_only(label, figures) for label, figures in sides if figures]


def _only(label: str, figures: Sequence[CalibrationFigure]) -> str:
    names = [say.quantity(figure.quantity, figure.of) for figure in figures if figure.is_main][:_MOST_NAMED]
    rest = len(figures) - len(names)
    parts = [*names, *([say.more(rest)] if rest else [])]
    return _("only in {label}: {names}").format(label=label, names=listed(parts))
