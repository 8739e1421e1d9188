"""The tables of a diagnosis as plain numbers with their units in the names of columns: for CSV and data frames."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import isnan
from operator import attrgetter
from typing import Any, Literal

from redline.findings.finding import Finding
from redline.findings.pages import page_of
from redline.ledger.accounts import ACCOUNTS
from redline.ledger.job.collective_table import CollectiveRow
from redline.ledger.job.combine import Diagnosis, PhaseRow
from redline.ledger.job.first_screen import WaterfallBar
from redline.ledger.job.lateness import LateRank
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.host_activity import HostActivity
from redline.ledger.rank.kernel_table import KernelRow
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.finding_messages import sentence
from redline.report.language import speaking

Cell = str | int | float | None
Kind = Literal["text", "whole", "number"]  # a number may be missing, the others are always there


@dataclass(frozen=True, kw_only=True)
class Column:
    """What a column holds, and how to read its cell from a row."""

    name: str
    kind: Kind
    read: Callable[[Any], Cell]


@dataclass(frozen=True, kw_only=True)
class RawTable:
    """Cells by rows."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


def raw_table(name: str, result: DiagnoseResult) -> RawTable:
    """In English, whatever language is spoken: programs read it."""
    columns = COLUMNS[name]
    with speaking("en"):
        rows = tuple(tuple(column.read(row) for column in columns) for row in _ROWS[name](result))
    return RawTable(name=name, columns=columns, rows=rows)


# --- columns ----------------------------------------------------------------------------------------------------------


def _texts(*names: str) -> Iterator[Column]:
    return (Column(name=name, kind="text", read=partial(_read_text, name)) for name in names)


def _whole(*names: str) -> Iterator[Column]:
    return (Column(name=name, kind="whole", read=attrgetter(name)) for name in names)


def _numbers(*names: str) -> Iterator[Column]:
    return (Column(name=name, kind="number", read=partial(_read_number, name)) for name in names)


def _codes(*names: str) -> Iterator[Column]:
    """Words of ours, as names that programs like: kernel_loss."""
    return (Column(name=name, kind="text", read=partial(_read_code, name)) for name in names)


def _read_code(name: str, row: object) -> str:
    return str(getattr(row, name)).replace(" ", "_")


def _read_text(name: str, row: object) -> str:
    return str(getattr(row, name))


def _read_number(name: str, row: object) -> float | None:
    return _known(getattr(row, name))


def _known(value: float | None) -> float | None:
    return None if value is None or isnan(value) else float(value)


def _text(name: str, read: Callable[[Any], str]) -> Column:
    return Column(name=name, kind="text", read=read)


def _count(name: str, read: Callable[[Any], int]) -> Column:
    return Column(name=name, kind="whole", read=read)


def _number(name: str, read: Callable[[Any], float | None]) -> Column:
    return Column(name=name, kind="number", read=lambda row: _known(read(row)))


# --- rows that have to be put together first --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Rank:
    digest: Digest
    kind: int
    clock_offset_ns: int
    late: LateRank | None

    @property
    def step_ns(self) -> float:
        """The average step."""
        ledger = self.digest.ledger
        return float(ledger.steps.sum()) / max(len(ledger.steps), 1)


@dataclass(frozen=True, kw_only=True)
class _Step:
    digest: Digest
    number: int

    @property
    def length_ns(self) -> int:
        ledger = self.digest.ledger
        return int(ledger.end_ns[self.number] - ledger.start_ns[self.number])

    def named(self, names: tuple[str, ...]) -> str:
        return names[self.number] if self.number < len(names) else ""


def _ranks(diagnosis: Diagnosis) -> Iterator[_Rank]:
    late = {rank.rank: rank for rank in diagnosis.lateness.ranks} if diagnosis.lateness else {}
    for index, digest in enumerate(diagnosis.ranks):
        yield _Rank(
            digest=digest,
            kind=diagnosis.kinds[index],
            clock_offset_ns=diagnosis.clocks.offset_ns[index],
            late=late.get(digest.origin.rank),
        )


def _steps(diagnosis: Diagnosis) -> Iterator[_Step]:
    return (_Step(digest=rank, number=step) for rank in diagnosis.ranks for step in range(len(rank.ledger.start_ns)))


def _mean_ns(place: int, rank: _Rank) -> float:
    """An account in the average step."""
    ledger = rank.digest.ledger
    return float(ledger.steps[:, place].sum()) / max(len(ledger.steps), 1)


def _amount_ns(place: int, step: _Step) -> int:
    return int(step.digest.ledger.steps[step.number, place])


def _accounts() -> Iterator[tuple[int, str]]:
    """Place and name of the column."""
    return ((place, f"{account.replace(' ', '_')}_ns") for place, account in enumerate(ACCOUNTS))


# --- the tables -------------------------------------------------------------------------------------------------------

COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "findings": (
        *_texts("code"),
        _text("title", lambda row: page_of(row.code).title),
        *_numbers("bound_ns", "share", "alone_ns", "alone_share", "steady_share", "speedup"),
        _number("forecast_ns", lambda row: row.forecast_ns),
        *_codes("numerics", "grade"),
        *_whole("ranks"),
        _text("evidence", lambda row: " ".join(map(sentence, row.evidence))),
    ),
    "kernels": (
        *_texts("operator", "kernel", "shapes", "dtype"),
        *_whole("calls", "kernels", "time_ns", "bytes"),
        *_numbers("flops", "math_ns", "memory_ns"),  # of many ranks, flops are more than 64 bits hold
        _number("share_of_roof", lambda row: row.share),
        *_codes("regime"),
    ),
    "collectives": (
        *_texts("collective"),
        *_whole("group_size", "payload_bytes", "groups", "calls"),
        *_whole("residence_ns", "hidden_ns", "exposed_ns", "wait_ns"),
        _count("matched_calls", lambda row: row.matched),
        *_numbers("typical_ns", "algorithm_bytes_per_s", "bus_bytes_per_s"),
    ),
    "ranks": (
        _count("rank", lambda row: row.digest.origin.rank),
        *_whole("kind"),
        _text("host", lambda row: row.digest.origin.host),
        _text("source", lambda row: row.digest.origin.source),
        _text("device_name", lambda row: row.digest.facts.device_name),
        _text("machine", lambda row: row.digest.facts.machine),
        _count("steps", lambda row: len(row.digest.ledger.start_ns)),
        _count("window_ns", lambda row: row.digest.ledger.window_ns),
        *_whole("clock_offset_ns"),
        _count("last_at", lambda row: row.late.last if row.late else 0),
        _count("caused_ns", lambda row: row.late.caused_ns if row.late else 0),
        *_numbers("step_ns"),
        *(_number(name, partial(_mean_ns, place)) for place, name in _accounts()),
    ),
    "steps": (
        _count("rank", lambda row: row.digest.origin.rank),
        _count("step", lambda row: row.number),
        _text("label", lambda row: row.named(row.digest.origin.step_labels)),
        _text("phase", lambda row: row.named(row.digest.origin.phases)),
        _count("start_ns", lambda row: int(row.digest.ledger.start_ns[row.number]) - row.digest.window_ns[0]),
        *_whole("length_ns"),
        *(_count(name, partial(_amount_ns, place)) for place, name in _accounts()),
    ),
    "host": (*_codes("account", "kind"), *_texts("name", "region", "site"), *_whole("time_ns", "times")),
    "waterfall": (*_codes("account"), *_numbers("time_ns", "before_ns", "share")),
    "phases": (*_codes("phase"), *_numbers("time_ns", "share", "device_ns", "host_ns", "waiting_ns")),
}
"""Of each table, in order. docs/reference/python.md says what they mean."""

_Row = Finding | KernelRow | CollectiveRow | _Rank | _Step | HostActivity | WaterfallBar | PhaseRow
_ROWS: Mapping[str, Callable[[DiagnoseResult], Iterable[_Row]]] = {
    "findings": lambda result: (*result.findings.findings, *result.findings.remarks),
    "kernels": lambda result: result.diagnosis.kernels,
    "collectives": lambda result: result.diagnosis.collectives,
    "ranks": lambda result: _ranks(result.diagnosis),
    "steps": lambda result: _steps(result.diagnosis),
    "host": lambda result: result.diagnosis.doing,
    "waterfall": lambda result: result.outline.waterfall,
    "phases": lambda result: result.diagnosis.phases,
}
