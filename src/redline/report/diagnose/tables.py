"""The tables of `diagnose`, as cells: kernels, collectives, ranks, steps, phases, and what the host did."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import TypeVar

from redline.findings.finding import Findings
from redline.ledger.accounts import ACCOUNTS, COMPUTE, Account, place
from redline.ledger.job.collective_table import CollectiveRow
from redline.ledger.job.combine import Diagnosis, PhaseRow
from redline.ledger.job.evidence import StepRow, step_rows
from redline.ledger.job.lateness import LateRank
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.host_activity import HOST_ACCOUNTS, HostActivity
from redline.ledger.rank.kernel_table import KernelRow
from redline.report.diagnose import account_messages, loss_messages
from redline.report.diagnose import table_messages as say
from redline.report.diagnose.findings_table import findings_table
from redline.report.document import ReportTable
from redline.report.language import _, marked
from redline.report.text_parts import clipped, percent, share
from redline.units import format_bytes, format_count, format_ns

Row = TypeVar("Row")

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


# --- kernels ----------------------------------------------------------------------------------------------------------

_KERNEL_HEAD = (
    marked("operator"),
    marked("shapes, or the kernel"),
    marked("dtype"),
    marked("calls"),
    marked("time"),
    marked("share"),
    marked("TFLOP/s"),
    marked("GB/s"),
    marked("of roof"),
    marked("limit"),
)


def kernels(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    rows = _first(diagnosis.kernels, verbose)
    total_ns = sum(rank.facts.kernel_ns for rank in diagnosis.ranks)
    notes = [_(say.KERNELS_NOTE)]
    if any(row.regime == "above roof" for row in rows):
        notes.append(_(say.ABOVE_ROOF_NOTE))
    cut = _cut(diagnosis, "kernel_rows")
    if cut:
        notes.append(say.kernels_cut(cut))
    return ReportTable(
        title=_("kernels"),
        empty=_(say.NO_ROWS["kernels"]),
        head=tuple(map(_, _KERNEL_HEAD)),
        rows=tuple(_kernel_row(row, total_ns) for row in rows),
        notes=(*_omitted(len(diagnosis.kernels) - len(rows), say.rows_left), *notes),
    )


def _kernel_row(row: KernelRow, total_ns: int) -> tuple[str, ...]:
    time_s = row.time_ns / 1e9
    return (
        clipped(row.operator, _OPERATOR_LIMIT) or "-",
        shapes_or_kernel(row) or "-",
        row.dtype or "-",
        format_count(row.calls),
        format_ns(row.time_ns),
        share(min(row.time_ns, total_ns), total_ns),
        _short(row.flops / time_s / 1e12) if row.flops and time_s else "-",
        _short(row.bytes / time_s / 1e9) if row.bytes and time_s else "-",
        "-" if row.share is None else percent(row.share),
        say.regime(row.regime),
    )


def _short(value: float) -> str:
    """Three digits or a few more, in the unit of the column."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


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

_COLLECTIVE_HEAD = (
    marked("collective"),
    marked("ranks"),
    marked("size"),
    marked("calls"),
    marked("time"),
    marked("hidden"),
    marked("waiting"),
    marked("algbw"),
    marked("busbw"),
)


def collectives(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    rows = _first(diagnosis.collectives, verbose)
    notes = [_(say.COLLECTIVES_NOTE)]
    if any(not row.matched for row in rows) and not diagnosis.predicted:
        notes.append(_(say.UNMATCHED_NOTE))
    return ReportTable(
        title=_("collectives"),
        empty=_(say.NO_ROWS["collectives"]),
        head=tuple(map(_, _COLLECTIVE_HEAD)),
        rows=tuple(map(_collective_row, rows)),
        notes=(*_omitted(len(diagnosis.collectives) - len(rows), say.rows_left), *notes),
    )


def _collective_row(row: CollectiveRow) -> tuple[str, ...]:
    return (
        clipped(row.collective, 40),
        str(row.group_size or "-"),
        format_bytes(row.payload_bytes) if row.payload_bytes else "-",
        format_count(row.calls),
        format_ns(row.residence_ns),
        percent(row.hidden_share),
        share(row.wait_ns, row.residence_ns) if row.matched else "-",
        _gb_per_s(row.algorithm_bytes_per_s),
        _gb_per_s(row.bus_bytes_per_s),
    )


def _gb_per_s(bytes_per_s: float | None) -> str:
    """In one unit, so that rows can be compared with each other and with nccl-tests."""
    return "-" if bytes_per_s is None else f"{bytes_per_s / 1e9:,.2f} GB/s"


# --- ranks ------------------------------------------------------------------------------------------------------------

_RANK_HEAD = (
    marked("rank"),
    marked("kind"),
    marked("step"),
    marked("compute"),
    marked("transfer"),
    marked("peer wait"),
    marked("host"),
    marked("input"),
    marked("last at"),
    marked("caused"),
)


def ranks(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    late = {rank.rank: rank for rank in diagnosis.lateness.ranks} if diagnosis.lateness else {}
    usual_ns = _usual_steps_ns(diagnosis)

    def suspicion(index: int) -> tuple[int, float]:
        rank = diagnosis.ranks[index]
        late_rank = late.get(rank.origin.rank)
        slower_ns = _median_step_ns(rank) - usual_ns[diagnosis.kinds[index]]  # than those that do the same work
        return -late_rank.caused_ns if late_rank else 0, -slower_ns

    order = sorted(range(len(diagnosis.ranks)), key=suspicion)
    chosen = sorted(order) if verbose or len(order) <= MOST_ROWS else order[:MOST_ROWS]
    return ReportTable(
        title=_("ranks"),
        empty="",
        head=tuple(map(_, _RANK_HEAD)),
        rows=tuple(_rank_row(diagnosis, index, late) for index in chosen),
        notes=(*_omitted(len(order) - len(chosen), say.ranks_left), _(say.RANKS_NOTE)),
    )


def _usual_steps_ns(diagnosis: Diagnosis) -> dict[int, float]:
    """For each kind of rank the median of their steps."""
    of_kind: dict[int, list[float]] = {}
    for rank, kind in zip(diagnosis.ranks, diagnosis.kinds, strict=True):
        of_kind.setdefault(kind, []).append(_median_step_ns(rank))
    return {kind: median(lengths) for kind, lengths in of_kind.items()}


def _median_step_ns(rank: Digest) -> float:
    lengths = (rank.ledger.end_ns - rank.ledger.start_ns).tolist()
    return median(lengths) if lengths else 0.0


def _rank_row(diagnosis: Diagnosis, index: int, late: Mapping[int, LateRank]) -> tuple[str, ...]:
    rank = diagnosis.ranks[index]
    steps = max(len(rank.ledger.start_ns), 1)
    amounts = rank.ledger.steps.sum(axis=0)

    def average(*accounts: Account) -> str:
        return format_ns(round(sum(int(amounts[place(account)]) for account in accounts) / steps))

    late_rank = late.get(rank.origin.rank)
    return (
        str(rank.origin.rank),
        kind_letter(diagnosis.kinds[index]),
        average(*Account),
        average(*COMPUTE),
        average(Account.TRANSFER),
        average(Account.PEER_WAIT),
        average(Account.HOST),
        average(Account.INPUT),
        format_count(late_rank.last) if late_rank else "0" if diagnosis.lateness else "-",
        format_ns(late_rank.caused_ns) if late_rank else "-",
    )


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
    every = step_rows(diagnosis)
    longest = sorted(every, key=lambda row: -row.mean_ns)[: len(every) if verbose else MOST_ROWS]
    chosen = sorted(longest, key=lambda row: row.number)
    used = [account for account in ACCOUNTS if any(row.amounts[place(account)] for row in every)]
    return ReportTable(
        title=_("steps"),
        empty=_(say.NO_ROWS["steps"]),
        head=(_("step"), _("label"), _("length"), *map(_short_head, used)),
        rows=tuple(_step_row(row, used) for row in chosen),
        notes=(*_omitted(len(every) - len(chosen), say.steps_left), _(say.STEPS_NOTE)),
    )


def _short_head(account: Account) -> str:
    return _(_SHORT_HEADS[account]) if account in _SHORT_HEADS else account_messages.name(account)


def _step_row(row: StepRow, used: list[Account]) -> tuple[str, ...]:
    shares = (f"{100 * row.share(account):.1f}" for account in used)
    return str(row.number), clipped(row.label, 28) or "-", format_ns(round(row.mean_ns)), *shares


# --- host -------------------------------------------------------------------------------------------------------------

_HOST_HEAD = (
    marked("account"),
    marked("time"),
    marked("share"),
    marked("what"),
    marked("region"),
    marked("call site"),
)


def host(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    rows = _first(diagnosis.doing, verbose)
    total_ns = sum(rank.ledger.of(account) for rank in diagnosis.ranks for account in HOST_ACCOUNTS)
    cut = _cut(diagnosis, "doing_rows")
    return ReportTable(
        title=_("host"),
        empty=_(say.NO_ROWS["host"]),
        head=tuple(map(_, _HOST_HEAD)),
        rows=tuple(_host_row(row, total_ns) for row in rows),
        notes=(*_omitted(len(diagnosis.doing) - len(rows), say.rows_left), _(say.HOST_NOTE))
        + ((say.doing_cut(cut),) if cut else ()),
    )


def _host_row(row: HostActivity, total_ns: int) -> tuple[str, ...]:
    return (
        account_messages.name(row.account),
        format_ns(row.time_ns),
        share(row.time_ns, total_ns),
        loss_messages.doing(row),
        clipped(row.region, 36) or "-",
        loss_messages.site(row.site) or "-",
    )


# --- phases -----------------------------------------------------------------------------------------------------------

_PHASE_HEAD = (
    marked("phase"),
    marked("time"),
    marked("share"),
    marked("device"),
    marked("host"),
    marked("waiting"),
)


def phases(diagnosis: Diagnosis, *, verbose: bool) -> ReportTable:
    return ReportTable(
        title=_("phases"),
        empty=_(say.NO_ROWS["phases"]),
        head=tuple(map(_, _PHASE_HEAD)),
        rows=tuple(_phase_row(row) for row in diagnosis.phases if row.time_ns),
        notes=(_(say.PHASES_NOTE), _(say.PHASE_KINDS_NOTE)),
    )


def _phase_row(row: PhaseRow) -> tuple[str, ...]:
    parts = (row.device_ns, row.host_ns, row.waiting_ns)
    times = (format_ns(round(part)) if part else "-" for part in parts)
    return say.phase(row.phase), format_ns(round(row.time_ns)), percent(row.share), *times


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


def _cut(diagnosis: Diagnosis, what: str) -> int:
    """How much of something did not fit into the digests."""
    return sum(rank.left_out.get(what, 0) for rank in diagnosis.ranks)


def _omitted(count: int, words: Callable[[int], str]) -> tuple[str, ...]:
    return (words(count),) if count > 0 else ()
