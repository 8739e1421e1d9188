"""The tables of `diagnose`: kernels, collectives, ranks, steps, phases, and what the host did.

A column is declared once. One with a title is shown to people, one with a name is given to programs.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple, TypeVar

from redline.findings.evidence import Grade
from redline.findings.finding import Finding, Findings
from redline.findings.pages import page_of
from redline.ledger.accounts import ACCOUNTS, COMPUTE, Account, place
from redline.ledger.job.collective_table import CollectiveRow
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.evidence import StepRow, step_rows
from redline.ledger.job.lateness import LateRank
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.host_activity import HOST_ACCOUNTS
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.kernel_table import KernelRow
from redline.numerics import Numerics
from redline.report.diagnose import account_messages, loss_messages
from redline.report.diagnose.finding_messages import sentence, speedup_text
from redline.report.document import ReportColumn, ReportTable, table_of
from redline.report.language import _, marked, ngettext, spoken
from redline.report.text_parts import clipped, percent, share
from redline.units import format_bytes, format_count, format_ns

Row = TypeVar("Row")
Columns = tuple[ReportColumn, ...]

MOST_ROWS = 16
_OPERATOR_LIMIT = 40
_SHAPES_LIMIT = 44
_WRAPPINGS = ("void ", "at::native::", "(anonymous namespace)::", "cutlass::device_kernel<", "c10::", "std::")
_ONE_SHAPE = re.compile(r"\[(\d+(?:, ?\d+)*)\]")
_SHORT_HEADS = {
    Account.KERNEL_LOSS: marked("loss"),
    Account.UNRATED: marked("unrated"),
    Account.PEER_WAIT: marked("wait"),
}


def _table(
    name: str, columns: Columns, rows: Iterable[object], notes: Iterable[str], *, empty: str = ""
) -> ReportTable:
    shown = (column for column in columns if column.title)
    return table_of(shown, rows, title=name, notes=filter(None, notes), empty=empty)


def _columns(kind: str, names: str) -> Iterator[ReportColumn]:
    """For programs alone."""
    return (ReportColumn(name, kind=kind) for name in names.split())


# --- findings ---------------------------------------------------------------------------------------------------------


def finding_columns(*, replayed: bool = False) -> Columns:
    """With forecasts where the steps were replayed; a remark claims no time."""

    def claimed(name: str, title: str, show: Callable[[Any], str]) -> ReportColumn:
        return ReportColumn("", title, lambda finding: show(getattr(finding, name)) if finding.alone_ns else "-", _self)

    return (
        ReportColumn("code", _("code"), kind="text"),
        ReportColumn("title", _("title"), read=lambda finding: page_of(finding.code, spoken()).title, kind="text"),
        *_columns("number", "bound_ns share alone_ns alone_share steady_share speedup forecast_ns"),
        claimed("bound_ns", _("bound"), lambda bound_ns: format_ns(round(bound_ns))),
        claimed("share", _("share"), percent),
        claimed("alone_share", _("alone"), percent),
        ReportColumn("", _("as fast"), lambda finding: speedup_text(finding) if finding.alone_ns else "-", _self),
        *((ReportColumn("", _("forecast"), _forecast, _self),) if replayed else ()),
        ReportColumn("numerics", _("numerics"), numerics_text, kind="code"),
        ReportColumn("grade", _("grade"), grade_text, kind="code"),
        ReportColumn("ranks", _("ranks"), format_count, kind="whole"),
        ReportColumn("evidence", read=lambda finding: " ".join(map(sentence, finding.evidence)), kind="text"),
    )


def _self(row: object) -> object:
    return row


def _forecast(finding: Finding) -> str:
    return "-" if finding.forecast_ns is None else percent(finding.expected_share)


def findings_table(findings: Findings) -> ReportTable:
    listed = (*findings.findings, *findings.remarks)
    replayed = any(finding.forecast is not None for finding in listed)
    notes = (
        _("bound: share of the average step that no other finding claims, so bounds add up"),
        _("alone: as the only fix, share of the average step; as fast: at most, for steps of typical length"),
        _("forecast: as the only fix, by a replay of the steps; never more than alone") if replayed else "",
    )
    return _table(_("findings"), finding_columns(replayed=replayed), listed, notes, empty=_("nothing was found"))


def numerics_text(numerics: Numerics) -> str:
    return {
        Numerics.BITWISE: _("bitwise"),
        Numerics.REASSOCIATION: _("reassociation"),
        Numerics.LOWER_PRECISION: _("lower precision"),
        Numerics.SEMANTICS: _("changes semantics"),
    }[numerics]


def grade_text(grade: Grade) -> str:
    return {
        Grade.MEASURED: _("measured"),
        Grade.DOCUMENTED: _("documented"),
        Grade.HYPOTHESIS: _("hypothesis"),
    }[grade]


# --- kernels ----------------------------------------------------------------------------------------------------------

REGIME: Mapping[str, str] = {
    "compute": marked("compute"),
    "memory": marked("memory"),
    "neither": marked("neither"),
    "above roof": marked("above roof"),
    "unknown": "-",
}


def kernel_columns(total_ns: int = 0) -> Columns:
    return (
        ReportColumn("operator", _("operator"), lambda name: clipped(name, _OPERATOR_LIMIT) or "-", kind="text"),
        *_columns("text", "kernel shapes"),
        ReportColumn("", _("shapes, or the kernel"), read=lambda row: shapes_or_kernel(row) or "-"),
        ReportColumn("dtype", _("dtype"), lambda dtype: dtype or "-", kind="text"),
        ReportColumn("calls", _("calls"), format_count, kind="whole"),
        ReportColumn("kernels", kind="whole"),
        ReportColumn("time_ns", _("time"), format_ns, kind="whole"),
        ReportColumn("bytes", kind="whole"),
        *_columns("number", "flops math_ns memory_ns"),  # of many ranks, flops are more than 64 bits hold
        ReportColumn("", _("share"), read=lambda row: share(min(row.time_ns, total_ns), total_ns)),
        ReportColumn("", _("TFLOP/s"), read=lambda row: _rate(row.flops, 1e12, row)),
        ReportColumn("", _("GB/s"), read=lambda row: _rate(row.bytes, 1e9, row)),
        ReportColumn(
            "share_of_roof", _("of roof"), lambda of_roof: "-" if of_roof is None else percent(of_roof),
            lambda row: row.share, kind="number",
        ),
        ReportColumn("regime", _("limit"), lambda regime: _(REGIME[regime]), kind="code"),
    )  # fmt: skip


def _rate(amount: float, unit: float, row: KernelRow) -> str:
    """Three digits or a few more, in the unit of the column."""
    if not amount or not row.time_ns:
        return "-"
    value = amount / (row.time_ns / 1e9) / unit
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


def kernels(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    rows = _first(diagnosis.kernels, verbose)
    notes = (
        _rows_left(len(diagnosis.kernels) - len(rows)),
        _("all ranks, whole window; share: of the time of all compute kernels"),
        _("above roof: from cache, or a wrong shape or peak; no share is given")
        if any(row.regime == "above roof" for row in rows)
        else "",
        _rows_cut(diagnosis, "kernel_rows"),
    )
    columns = kernel_columns(sum(rank.facts.kernel_ns for rank in diagnosis.ranks))
    return _table(_("kernels"), columns, rows, notes, empty=_("no compute in the traces"))


def shapes_or_kernel(row: KernelRow) -> str:
    """The shapes; where the work is not known the kernel itself, without what tells nothing about it."""
    if row.known or row.kernel == row.operator:
        return shapes(row.shapes)
    return clipped(unwrapped(row.kernel), _SHAPES_LIMIT)


def unwrapped(kernel: str) -> str:
    """The name of a kernel without what tells nothing about it."""
    for word in _WRAPPINGS:
        kernel = kernel.replace(word, "")
    return kernel


def shapes(json: str) -> str:
    """[[8944, 1024], [1024, 2816], []] -> 8944x1024 1024x2816; the text may be cut, and lists nested."""
    recorded_shapes = [match.replace(" ", "").replace(",", "x") for match in _ONE_SHAPE.findall(json)]
    text = " ".join(recorded_shapes)
    return text if len(text) <= _SHAPES_LIMIT else f"{text[: _SHAPES_LIMIT - 3].rsplit(' ', 1)[0]} ..."


# --- collectives ------------------------------------------------------------------------------------------------------


def collective_columns() -> Columns:
    return (
        ReportColumn("collective", _("collective"), lambda name: clipped(name, 40), kind="text"),
        ReportColumn("group_size", _("ranks"), lambda size: str(size or "-"), kind="whole"),
        ReportColumn("payload_bytes", _("size"), lambda size: format_bytes(size) if size else "-", kind="whole"),
        ReportColumn("groups", kind="whole"),
        ReportColumn("calls", _("calls"), format_count, kind="whole"),
        ReportColumn("residence_ns", _("time"), format_ns, kind="whole"),
        ReportColumn("", _("hidden"), percent, lambda row: row.hidden_share),
        *_columns("whole", "hidden_ns exposed_ns wait_ns"),
        ReportColumn("", _("waiting"), read=_waiting),
        ReportColumn("matched_calls", read=lambda row: row.matched, kind="whole"),
        ReportColumn("typical_ns", kind="number"),
        ReportColumn("algorithm_bytes_per_s", _("algbw"), _gb_per_s, kind="number"),
        ReportColumn("bus_bytes_per_s", _("busbw"), _gb_per_s, kind="number"),
    )


def _waiting(row: CollectiveRow) -> str:
    return share(row.wait_ns, row.residence_ns) if row.matched else "-"


def _gb_per_s(bytes_per_s: float | None) -> str:
    """In one unit, so that rows can be compared with each other and with nccl-tests."""
    return "-" if bytes_per_s is None else f"{bytes_per_s / 1e9:,.2f} GB/s"


def collectives(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    rows = _first(diagnosis.collectives, verbose)
    notes = (
        _rows_left(len(diagnosis.collectives) - len(rows)),
        _("all ranks; bandwidths as in nccl-tests, of the median exchange after all ranks arrived"),
        _("waiting -: the other ranks are not in the traces, so times include waiting and bandwidths are too low")
        if any(not row.matched for row in rows) and not diagnosis.predicted
        else "",
    )
    return _table(_("collectives"), collective_columns(), rows, notes, empty=_("no communication in the traces"))


# --- ranks ------------------------------------------------------------------------------------------------------------


class RankRow(NamedTuple):
    digest: Digest
    kind: int
    clock_offset_ns: int
    late: LateRank | None

    def mean_ns(self, *accounts: Account) -> float:
        """These accounts in the average step."""
        ledger = self.digest.ledger
        amounts = ledger.steps.sum(axis=0)
        return sum(int(amounts[place(account)]) for account in accounts) / max(len(ledger.steps), 1)


def rank_rows(diagnosis: Diagnosis) -> list[RankRow]:
    late = {rank.rank: rank for rank in diagnosis.lateness.ranks} if diagnosis.lateness else {}
    rows = zip(diagnosis.ranks, diagnosis.kinds, diagnosis.clocks.offset_ns, strict=True)
    return [RankRow(digest, kind, offset_ns, late.get(digest.origin.rank)) for digest, kind, offset_ns in rows]


def rank_columns(*, never_late: str = "") -> Columns:
    """`never_late` is said of a rank that nobody waited for."""

    def exact(account: Account) -> ReportColumn:
        return ReportColumn(_amount_name(account), read=lambda row: row.mean_ns(account), kind="number")

    def average(title: str, *accounts: Account) -> ReportColumn:
        return ReportColumn("", title, lambda mean_ns: format_ns(round(mean_ns)), lambda row: row.mean_ns(*accounts))

    def of_late(title: str, show: Callable[[LateRank], str], otherwise: str) -> ReportColumn:
        return ReportColumn("", title, lambda late: show(late) if late else otherwise, lambda row: row.late)

    return (
        ReportColumn("rank", _("rank"), read=lambda row: row.digest.origin.rank, kind="whole"),
        ReportColumn("kind", _("kind"), kind_letter, kind="whole"),
        ReportColumn("host", read=lambda row: row.digest.origin.host, kind="text"),
        ReportColumn("source", read=lambda row: row.digest.origin.source, kind="text"),
        ReportColumn("device_name", read=lambda row: row.digest.facts.device_name, kind="text"),
        ReportColumn("machine", read=lambda row: row.digest.facts.machine, kind="text"),
        ReportColumn("steps", read=lambda row: len(row.digest.ledger.start_ns), kind="whole"),
        ReportColumn("window_ns", read=lambda row: row.digest.ledger.window_ns, kind="whole"),
        ReportColumn("clock_offset_ns", kind="whole"),
        ReportColumn("last_at", read=lambda row: row.late.last if row.late else 0, kind="whole"),
        ReportColumn("caused_ns", read=lambda row: row.late.caused_ns if row.late else 0, kind="whole"),
        ReportColumn("step_ns", read=lambda row: row.mean_ns(*Account), kind="number"),
        *map(exact, ACCOUNTS),
        average(_("step"), *Account),
        average(_("compute"), *COMPUTE),
        average(_("transfer"), Account.TRANSFER),
        average(_("peer wait"), Account.PEER_WAIT),
        average(_("host"), Account.HOST),
        average(_("input"), Account.INPUT),
        of_late(_("last at"), lambda late: format_count(late.last), never_late),
        of_late(_("caused"), lambda late: format_ns(late.caused_ns), "-"),
    )


def _amount_name(account: Account) -> str:
    return f"{account.replace(' ', '_')}_ns"


def ranks(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    rows = rank_rows(diagnosis)
    usual_ns = _usual_steps_ns(diagnosis)

    def suspicion(row: RankRow) -> tuple[int, float]:
        slower_ns = _median_step_ns(row.digest) - usual_ns[row.kind]  # than those that do the same work
        return -row.late.caused_ns if row.late else 0, -slower_ns

    chosen = rows if verbose or len(rows) <= MOST_ROWS else sorted(rows, key=suspicion)[:MOST_ROWS]
    more = len(rows) - len(chosen)
    notes = (
        _some(
            more,
            ngettext(
                "... and {count:,} more rank; shown are those that others waited for longest, then the slowest "
                "of their kind; -v lists all",
                "... and {count:,} more ranks; shown are those that others waited for longest, then the slowest "
                "of their kind; -v lists all",
                more,
            ),
        ),
        _(
            "average step of each rank; caused: total time that others waited for it. Compare only ranks of the same "
            "kind"
        ),
    )
    return _table(_("ranks"), rank_columns(never_late="0" if diagnosis.lateness else "-"), chosen, notes)


def _usual_steps_ns(diagnosis: Diagnosis) -> dict[int, float]:
    """For each kind of rank the median of their steps."""
    of_kind: dict[int, list[float]] = {}
    for rank, kind in zip(diagnosis.ranks, diagnosis.kinds, strict=True):
        of_kind.setdefault(kind, []).append(_median_step_ns(rank))
    return {kind: median(lengths) for kind, lengths in of_kind.items()}


def _median_step_ns(rank: Digest) -> float:
    lengths = (rank.ledger.end_ns - rank.ledger.start_ns).tolist()
    return median(lengths) if lengths else 0.0


def kind_letter(number: int) -> str:
    """A to Z, then AA, AB and so on."""
    text = ""
    while number >= 0:
        number, place_in_alphabet = divmod(number, 26)
        text = chr(ord("A") + place_in_alphabet) + text
        number -= 1
    return text


# --- steps ------------------------------------------------------------------------------------------------------------


def steps(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    """Each step, the average of the ranks."""
    every = step_rows(diagnosis)
    longest = sorted(every, key=lambda row: -row.mean_ns)[: len(every) if verbose else MOST_ROWS]
    more = len(every) - len(longest)
    used = [account for account in ACCOUNTS if any(row.amounts[place(account)] for row in every)]
    columns = (
        ReportColumn("number", _("step")),
        ReportColumn("label", _("label"), lambda label: clipped(label, 28) or "-"),
        ReportColumn("mean_ns", _("length"), lambda mean_ns: format_ns(round(mean_ns))),
        *(ReportColumn("", _short_head(account), read=_percentage(account)) for account in used),
    )
    notes = (
        _some(
            more,
            ngettext(
                "... and {count:,} more step; shown are the longest; -v lists all",
                "... and {count:,} more steps; shown are the longest; -v lists all",
                more,
            ),
        ),
        _("length: average of the ranks; accounts in percent of the step, over all ranks"),
    )
    rows = sorted(longest, key=lambda row: row.number)
    return _table(_("steps"), columns, rows, notes, empty=_("no steps in the traces"))


def _short_head(account: Account) -> str:
    return _(_SHORT_HEADS[account]) if account in _SHORT_HEADS else account_messages.name(account)


def _percentage(account: Account) -> Callable[[StepRow], str]:
    return lambda row: f"{100 * row.share(account):.1f}"


def step_columns() -> Columns:
    """Each step of each rank, as `steps_of_ranks` has it."""
    kinds = (("rank", "whole"), ("step", "whole"), ("label", "text"), ("phase", "text"), ("start_ns", "whole"))
    amounts = ((_amount_name(account), "whole") for account in ACCOUNTS)
    named = (*kinds, ("length_ns", "whole"), *amounts)
    return tuple(ReportColumn(name, read=itemgetter(number), kind=kind) for number, (name, kind) in enumerate(named))


def steps_of_ranks(diagnosis: Diagnosis) -> Iterator[tuple[object, ...]]:
    for rank in diagnosis.ranks:
        origin, ledger = rank.origin, rank.ledger
        times = zip(ledger.start_ns.tolist(), ledger.end_ns.tolist(), ledger.steps.tolist(), strict=True)
        for number, (start_ns, end_ns, amounts) in enumerate(times):
            label, phase = (
                names[number] if number < len(names) else "" for names in (origin.step_labels, origin.phases)
            )
            yield origin.rank, number, label, phase, start_ns - rank.window_ns[0], end_ns - start_ns, *amounts


# --- host -------------------------------------------------------------------------------------------------------------


def host_columns(total_ns: int = 0) -> Columns:
    return (
        ReportColumn("account", _("account"), account_messages.name, kind="code"),
        ReportColumn("kind", kind="code"),
        *_columns("text", "name region site"),
        ReportColumn("time_ns", _("time"), format_ns, kind="whole"),
        ReportColumn("times", kind="whole"),
        ReportColumn("", _("share"), read=lambda row: share(row.time_ns, total_ns)),
        ReportColumn("", _("what"), read=loss_messages.doing),
        ReportColumn("", _("region"), read=lambda row: clipped(row.region, 36) or "-"),
        ReportColumn("", _("call site"), read=lambda row: loss_messages.site(row.site) or "-"),
    )


def host(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    rows = _first(diagnosis.doing, verbose)
    notes = (
        _rows_left(len(diagnosis.doing) - len(rows)),
        _("what the host did while the device waited for it: over all ranks and the whole window"),
        _rows_cut(diagnosis, "doing_rows"),
    )
    columns = host_columns(sum(rank.ledger.of(account) for rank in diagnosis.ranks for account in HOST_ACCOUNTS))
    nothing = _("the device never waited for the host, or the host was not recorded")
    return _table(_("host"), columns, rows, notes, empty=nothing)


# --- phases -----------------------------------------------------------------------------------------------------------

PHASE: Mapping[Phase, str] = {
    Phase.INPUT: marked("input"),
    Phase.FORWARD: marked("forward"),
    Phase.BACKWARD: marked("backward"),
    Phase.OPTIMIZER: marked("optimizer"),
    Phase.BETWEEN: marked("between steps"),
}


def phase_name(phase: Phase) -> str:
    return _(PHASE[phase])


def phase_columns() -> Columns:
    def part(name: str, title: str) -> ReportColumn:
        return ReportColumn(name, title, lambda part_ns: format_ns(round(part_ns)) if part_ns else "-", kind="number")

    return (
        ReportColumn("phase", _("phase"), phase_name, kind="code"),
        ReportColumn("time_ns", _("time"), lambda time_ns: format_ns(round(time_ns)), kind="number"),
        ReportColumn("share", _("share"), percent, kind="number"),
        part("device_ns", _("device")),
        part("host_ns", _("host")),
        part("waiting_ns", _("waiting")),
    )


def phases(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    rows = (row for row in diagnosis.phases if row.time_ns)
    notes = (
        _("average step of a rank; work of the device counts in the phase that launched it"),
        _("host: the device is idle; waiting: for other ranks, loader workers, or queued work"),
    )
    nothing = _("the traces do not tell phases of a step apart")
    return _table(_("phases"), phase_columns(), rows, notes, empty=nothing)


# --- all --------------------------------------------------------------------------------------------------------------

FINDINGS = "findings"
TABLES: Mapping[str, Callable[..., ReportTable]] = {
    "kernels": kernels,
    "collectives": collectives,
    "ranks": ranks,
    "steps": steps,
    "phases": phases,
    "host": host,
}


def tables_of(
    names: Sequence[str], diagnosis: Diagnosis, findings: Findings, *, verbose: bool
) -> Iterator[ReportTable]:
    """Those that were asked for: names of TABLES, or "findings"."""
    for name in names:
        yield findings_table(findings) if name == FINDINGS else TABLES[name](diagnosis, verbose=verbose)


def _first(rows: Sequence[Row], verbose: bool) -> Sequence[Row]:
    return rows if verbose else rows[:MOST_ROWS]


def _rows_cut(diagnosis: Diagnosis, what: str) -> str:
    cut = sum(rank.left_out.get(what, 0) for rank in diagnosis.ranks)
    text = ngettext(
        "{count:,} row did not fit into the digests and is summed up under others",
        "{count:,} rows did not fit into the digests and are summed up under others",
        cut,
    )
    return _some(cut, text)


def _rows_left(count: int) -> str:
    text = ngettext("... and {count:,} more row; -v lists all", "... and {count:,} more rows; -v lists all", count)
    return _some(count, text)


def _some(count: int, text: str) -> str:
    """ "" for none."""
    return text.format(count=count) if count > 0 else ""
