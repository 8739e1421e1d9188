"""The data of each chart as plain values. How they are drawn is the business of report.js."""

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from redline.hardware import catalogue
from redline.ledger.accounts import ACCOUNTS, place
from redline.ledger.job.collective_table import CollectiveRow
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.evidence import StepRow, step_rows
from redline.ledger.rank.kernel_table import KernelRow, Regime
from redline.report import counted_nouns
from redline.report.diagnose import account_messages
from redline.report.diagnose.loss_messages import late_line
from redline.report.diagnose.tables import shapes_or_kernel
from redline.report.html.scale import scaled, time_unit
from redline.report.language import _, clauses
from redline.report.text_parts import clipped, percent
from redline.units import format_bytes, format_ns, format_rate

MOST_BARS = 240  # of steps
MOST_COLUMNS = 128  # of ranks
MOST_POINTS = 300
_NAME_LIMIT = 70
_LABEL_LIMIT = 34
_LEAST_SHARE = 0.0005  # of the step: less has no row in the heat map


# --- steps ------------------------------------------------------------------------------------------------------------


def steps_figure(diagnosis: Diagnosis) -> dict[str, Any]:
    """Steps as stacked bars, the average of the ranks, with the longest of any rank where there are several.

    A bar may be several steps, and has their names.
    """
    rows = step_rows(diagnosis)
    per_bar = -(-len(rows) // MOST_BARS) or 1
    groups = [rows[first : first + per_bar] for first in range(0, len(rows), per_bar)]
    amounts = np.array([_average(group) for group in groups])
    unit, unit_ns = time_unit(max((max(row.longest_ns for row in group) for group in groups), default=0))
    return {
        "unit": unit,
        "labels": [_span(group[0].number, group[-1].number) for group in groups],
        "names": [clipped(group[0].label, _NAME_LIMIT) for group in groups],
        "stacks": [
            {
                "code": account_messages.colour(account),
                "name": account_messages.name(account),
                "values": scaled(amounts[:, place(account)].tolist(), unit_ns),
            }
            for account in ACCOUNTS
            if groups and amounts[:, place(account)].any()
        ],
        "longest": scaled([max(row.longest_ns for row in group) for group in groups], unit_ns)
        if len(diagnosis.ranks) > 1
        else [],
        "steps_per_bar": per_bar,
    }


def _average(group: Sequence[StepRow]) -> list[float]:
    """Accounts of the average step of a rank."""
    total = np.sum([row.amounts for row in group], axis=0) / max(sum(row.ranks for row in group), 1)
    return list(total.tolist())


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


# --- ranks ------------------------------------------------------------------------------------------------------------


def ranks_figure(diagnosis: Diagnosis) -> dict[str, Any]:
    """Accounts by rank or groups of ranks, in percent of the average step of the job and as times.

    Beside them how long others waited for each, if anybody is known to be late.
    """
    ranks = diagnosis.ranks
    per_column = -(-len(ranks) // MOST_COLUMNS)
    columns = [range(first, min(first + per_column, len(ranks))) for first in range(0, len(ranks), per_column)]
    averages = np.array([rank.ledger.steps.sum(axis=0) / max(len(rank.ledger.steps), 1) for rank in ranks])
    amounts = np.array([averages[list(column)].mean(axis=0) for column in columns])
    step_ns = sum(diagnosis.per_step.values()) or 1.0
    shown = [account for account in ACCOUNTS if amounts[:, place(account)].max() >= _LEAST_SHARE * step_ns]
    caused, unit, texts = _caused(diagnosis, columns)
    return {
        "unit": _("% of the average step"),
        "labels": [_span(ranks[column[0]].origin.rank, ranks[column[-1]].origin.rank) for column in columns],
        "percent": [
            {
                "code": account_messages.colour(account),
                "name": account_messages.name(account),
                "values": [round(100 * value / step_ns, 2) for value in amounts[:, place(account)].tolist()],
            }
            for account in shown
        ],
        "times": [[format_ns(round(value)) for value in amounts[:, place(account)].tolist()] for account in shown],
        "caused": caused,
        "caused_unit": unit,
        "caused_texts": texts,
        "ranks_per_column": per_column,
    }


def _caused(diagnosis: Diagnosis, columns: Sequence[range]) -> tuple[list[float], str, list[str]]:
    """How long all others waited for the ranks of each column, and for whom of them longest."""
    late = {rank.rank: rank for rank in diagnosis.lateness.ranks} if diagnosis.lateness else {}
    of_column = [
        [late[rank] for rank in (diagnosis.ranks[index].origin.rank for index in column) if rank in late]
        for column in columns
    ]
    sums = [sum(late_rank.caused_ns for late_rank in column) for column in of_column]
    if not any(sums):
        return [], "", []
    unit, unit_ns = time_unit(max(sums))
    worst = [max(column, key=lambda late_rank: late_rank.caused_ns, default=None) for column in of_column]
    texts = ["" if late_rank is None else late_line(late_rank) for late_rank in worst]
    return scaled(sums, unit_ns), unit, texts


# --- kernels ----------------------------------------------------------------------------------------------------------


REGIME_CODES: dict[Regime, str] = {
    "compute": "math",
    "memory": "memory",
    "neither": "kernel-loss",
    "above roof": "other",
}


def regime_name(regime: Regime) -> str:
    return {
        "compute": _("limited by compute"),
        "memory": _("limited by memory bandwidth"),
        "neither": _("far below both"),
        "above roof": _("above the roof"),
    }[regime]


def roofline_figure(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """Operators by intensity (FLOP per byte) and rate (FLOP/s); None where none has both arithmetic and a roof.

    Sizes are from 0 to 1, by area; groups are regimes; `left_out` says which operators are not among the points.
    """
    rated = [row for row in diagnosis.kernels if row.known and row.roof_ns == row.roof_ns and row.time_ns]
    rows = [row for row in rated if row.flops and row.bytes][:MOST_POINTS]
    bytes_per_s = _bandwidth(rated)
    if not rows or not bytes_per_s:
        return None
    longest_ns = max(row.time_ns for row in rows)
    peaks = {
        arithmetic.dtype: arithmetic.peak_flops_per_s for rank in diagnosis.ranks for arithmetic in rank.arithmetic
    }
    return {
        "points": [
            {
                "x": float(f"{row.flops / row.bytes:.4g}"),
                "y": float(f"{row.flops / row.time_ns * 1e9:.4g}"),
                "size": round(sqrt(row.time_ns / longest_ns), 3),
                "group": REGIME_CODES[row.regime],
                "text": _kernel_text(row),
                "name": clipped(row.operator.removeprefix("aten::"), _LABEL_LIMIT),
                "hollow": False,
            }
            for row in rows
        ],
        "groups": {REGIME_CODES[regime]: regime_name(regime) for regime in REGIME_CODES},
        "bytes_per_s": bytes_per_s,
        "bandwidth": format_rate(bytes_per_s, "B"),
        "peaks": [
            {"name": f"{dtype} {format_rate(peak, 'FLOP')}", "value": peak} for dtype, peak in peaks.items() if peak
        ],
        "left_out": _without_arithmetic(rated, len(rows)),
    }


def _bandwidth(rated: Sequence[KernelRow]) -> float:
    """Of the machine, as the times that bytes need at best were computed with it."""
    memory_ns = sum(row.memory_ns for row in rated if row.bytes)
    return sum(row.bytes for row in rated) / memory_ns * 1e9 if memory_ns else 0.0


def _kernel_text(row: KernelRow) -> str:
    name = " ".join(text for text in (clipped(row.operator, _NAME_LIMIT), shapes_or_kernel(row)) if text)
    share = _("above its roof") if row.share is None else _("{share} of its roof").format(share=percent(row.share))
    return _("{name}\n{calls}, {time}\n{rate}, {share}").format(
        name=name,
        calls=counted_nouns.calls(row.calls),
        time=format_ns(row.time_ns),
        rate=format_rate(row.flops / row.time_ns * 1e9, "FLOP"),
        share=share,
    )


def _without_arithmetic(rated: Sequence[KernelRow], shown: int) -> str:
    """What has a roof and no place on this chart."""
    moving = [row for row in rated if not row.flops]
    total_ns = sum(row.time_ns for row in rated) or 1
    cut = len(rated) - len(moving) - shown
    parts = []
    if moving:
        text = _(
            "{share} of the rated time is in operators without counted FLOPs (elementwise, copies, "
            "indexing): they reach {reached} of the memory bandwidth on average, and are only in the table"
        )
        time_ns = sum(row.time_ns for row in moving)
        reached = min(sum(row.memory_ns for row in moving) / time_ns, 1.0)
        parts.append(text.format(share=percent(time_ns / total_ns), reached=percent(reached)))
    if cut > 0:
        parts.append(_("{count:,} operators with less time are left out").format(count=cut))
    return clauses(parts)


# --- collectives ------------------------------------------------------------------------------------------------------


def collectives_figure(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """Collectives by size (bytes) and bus bandwidth (bytes per second); None where none has a known size.

    Hollow points have waiting in their time; groups are kinds of collectives, those with most time first.
    """
    rows = [row for row in diagnosis.collectives if row.bus_bytes_per_s]
    if not rows:
        return None
    longest_ns = max(row.residence_ns for row in rows)
    times: Counter[str] = Counter()
    for row in rows:
        times[row.collective] += row.residence_ns
    return {
        "points": [
            {
                "x": float(row.payload_bytes),
                "y": float(f"{row.bus_bytes_per_s or 0:.4g}"),
                "size": round(sqrt(row.residence_ns / longest_ns), 3),
                "group": clipped(row.collective, _NAME_LIMIT),
                "text": _collective_text(row),
                "name": "",  # its group has one
                "hollow": not row.matched,
            }
            for row in rows[:MOST_POINTS]
        ],
        "groups": [clipped(kind, _NAME_LIMIT) for kind, _time in times.most_common()],
        "links": _links(diagnosis),
        "left_out": len(diagnosis.collectives) - len(rows[:MOST_POINTS]),
        "hollow": any(not row.matched for row in rows[:MOST_POINTS]),
    }


def _collective_text(row: CollectiveRow) -> str:
    waiting = percent(row.wait_ns / row.residence_ns) if row.matched and row.residence_ns else _("not known")
    return _("{name} of {size} over {ranks}\n{calls}, {time}\n{speed}, hidden {hidden}, waiting {waiting}").format(
        name=clipped(row.collective, _NAME_LIMIT),
        size=format_bytes(row.payload_bytes),
        ranks=_ranks(row.group_size),
        calls=counted_nouns.calls(row.calls),
        time=format_ns(row.residence_ns),
        speed=format_rate(row.bus_bytes_per_s or 0.0, "B"),
        hidden=percent(row.hidden_share),
        waiting=waiting,
    )


def _ranks(count: int) -> str:
    return counted_nouns.ranks(count) if count else _("an unknown number of ranks")


def _links(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Links of the machine, where the catalogue has it and all ranks have the same."""
    machines = {rank.facts.machine for rank in diagnosis.ranks}
    machine = catalogue.record(machines.pop()) if len(machines) == 1 else None
    if machine is None:
        return []
    links = ((machine.link or _("link"), machine.fabric_bytes_per_s), (_("network"), machine.nic_bytes_per_s))
    return [
        {"name": f"{name} {format_rate(figure.value, 'B')}", "value": figure.value}
        for name, figure in links
        if figure is not None
    ]
