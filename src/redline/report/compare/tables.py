"""The tables of a comparison, as cells: accounts, phases, findings, ranks, operators, collectives, and the rest."""

from collections.abc import Iterable, Iterator
from fractions import Fraction

from redline.findings.pages import page_of
from redline.ledger.accounts import Account
from redline.ledger.rank.host_phases import Phase
from redline.report.compare.sentences import collective_size, context_name, context_value, memory_name, signed
from redline.report.diagnose import account_messages
from redline.report.diagnose.tables import phase_name, shapes
from redline.report.document import ReportTable
from redline.report.language import _, marked, spoken
from redline.report.text_parts import clipped, percent
from redline.trials.recordings import AmountChange, CountedChange, FindingChange, MemoryChange, RecordingDifference
from redline.units import format_bytes, format_ns

FEW_ROWS = 8  # of operators and collectives, unless all are asked for
FEW_RANKS = 16
_DETAIL_LETTERS = 44
_SAME = Fraction(1, 1000)  # of the step: a smaller difference of an account is not shown as one


def tables_of(difference: RecordingDifference, *, verbose: bool) -> Iterator[ReportTable]:
    """Those that have rows, the most important first."""
    yield _accounts(difference)
    if difference.phases:
        yield _phases(difference)
    if difference.memory:
        yield _memory(difference.memory)
    if difference.findings:
        yield _findings(difference.findings)
    if len(difference.ranks) > 1:
        yield _ranks(difference, verbose=verbose)
    yield from _counted(_("operators, largest difference first"), difference.operators, difference, verbose=verbose)
    yield from _counted(_("collectives, largest difference first"), difference.collectives, difference, verbose=verbose)
    if difference.context:
        yield _context(difference)


_HEAD = (marked("before"), marked("after"), marked("difference"), marked("of the step"))


def _amounts(before_ns: Fraction, after_ns: Fraction, step_ns: Fraction) -> tuple[str, ...]:
    difference_ns = after_ns - before_ns
    share = float(difference_ns / step_ns) if step_ns else 0.0
    return format_ns(round(before_ns)), format_ns(round(after_ns)), time_difference(difference_ns), signed(share)


def time_difference(difference_ns: Fraction) -> str:
    """With its sign; 0 without one."""
    rounded = round(difference_ns)
    return ("+" if rounded > 0 else "-" if rounded < 0 else "") + format_ns(abs(rounded))


def _accounts(difference: RecordingDifference) -> ReportTable:
    step = difference.step
    rows = [
        (account_messages.name(Account(row.name)), *_amounts(row.before_ns, row.after_ns, step.before_ns))
        for row in difference.accounts
        if row.before_ns or row.after_ns
    ]
    total = (_("= step"), *_amounts(step.before_ns, step.after_ns, step.before_ns))
    return ReportTable(
        title=_("average step of a rank, account by account"),
        head=(_("account"), *map(_, _HEAD)),
        rows=(*rows, total),
    )


def _phases(difference: RecordingDifference) -> ReportTable:
    step_ns = difference.step.before_ns
    rows = [
        (phase_name(Phase(name)), *_amounts(before_ns, after_ns, step_ns))
        for name, before_ns, after_ns in _by_phase(difference.phases)
        if before_ns or after_ns
    ]
    return ReportTable(
        title=_("the same steps, phase by phase"),
        head=(_("phase"), *map(_, _HEAD)),
        rows=tuple(rows),
    )


def _by_phase(cells: Iterable[AmountChange]) -> Iterator[tuple[str, Fraction, Fraction]]:
    """Cells are named by phase and kind; kinds of one phase follow each other."""
    sums: dict[str, tuple[Fraction, Fraction]] = {}
    for cell in cells:
        name = cell.name.partition(" ")[0]
        before_ns, after_ns = sums.get(name, (Fraction(), Fraction()))
        sums[name] = (before_ns + cell.before_ns, after_ns + cell.after_ns)
    for name, (before_ns, after_ns) in sums.items():
        yield name, before_ns, after_ns


def _ranks(difference: RecordingDifference, *, verbose: bool) -> ReportTable:
    rows = difference.ranks if verbose else difference.ranks[:FEW_RANKS]
    left = len(difference.ranks) - len(rows)
    return ReportTable(
        title=_("average step of each rank"),
        head=(_("rank"), *map(_, _HEAD)),
        rows=tuple((row.name, *_amounts(row.before_ns, row.after_ns, row.before_ns)) for row in rows),
        notes=(_("and {count} more: -v").format(count=left),) if left else (),
    )


def _counted(
    title: str, changes: tuple[CountedChange, ...], difference: RecordingDifference, *, verbose: bool
) -> Iterator[ReportTable]:
    step_ns = difference.step.before_ns
    notable = [row for row in changes if abs(row.difference_ns) > _SAME * step_ns]
    rows = notable if verbose else notable[:FEW_ROWS]
    if not rows:
        return
    left = len(notable) - len(rows)
    yield ReportTable(
        title=title,
        head=(_("name"), _("shapes or size"), _("calls"), *map(_, _HEAD)),
        rows=tuple(
            (
                clipped(row.name, _DETAIL_LETTERS),
                shapes(row.detail) or collective_size(row.detail) or "-",
                f"{float(row.before_calls):,.3g} -> {float(row.after_calls):,.3g}",
                *_amounts(row.before_ns, row.after_ns, step_ns),
            )
            for row in rows
        ),
        notes=(_("and {count} more: -v").format(count=left),) if left else (),
    )


def _memory(changes: tuple[MemoryChange, ...]) -> ReportTable:
    return ReportTable(
        title=_("peak memory of the fullest rank"),
        head=(_("kind of memory"), _("before"), _("after"), _("difference"), ""),
        rows=tuple(
            (memory_name(row.name), _bytes(row.before_bytes), _bytes(row.after_bytes), *_bytes_difference(row))
            for row in changes
        ),
    )


def _bytes(amount: int | None) -> str:
    return "-" if amount is None else format_bytes(amount)


def _bytes_difference(row: MemoryChange) -> tuple[str, str]:
    if row.before_bytes is None or row.after_bytes is None:
        return "-", "-"
    difference = row.after_bytes - row.before_bytes
    sign = "+" if difference > 0 else "-" if difference < 0 else ""
    return sign + format_bytes(abs(difference)), signed(difference / row.before_bytes if row.before_bytes else 0.0)


def _findings(changes: tuple[FindingChange, ...]) -> ReportTable:
    return ReportTable(
        title=_("findings: what each can gain at most on its own"),
        head=(_("finding"), "", _("before"), _("after"), ""),
        rows=tuple(
            (row.code, page_of(row.code, spoken()).title, _share(row.before), _share(row.after), _state(row))
            for row in changes
        ),
    )


def _share(ratio: float | None) -> str:
    return "-" if ratio is None else percent(ratio)


def _state(row: FindingChange) -> str:
    if row.after is None:
        return _("gone")
    return _("new") if row.before is None else ""


def _context(difference: RecordingDifference) -> ReportTable:
    return ReportTable(
        title=_("what else differs"),
        head=(_("what"), _("before"), _("after")),
        rows=tuple(
            (context_name(row.what), *(context_value(row.what, value) for value in (row.before, row.after)))
            for row in difference.context
        ),
    )
