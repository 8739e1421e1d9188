"""What stands behind the accounts: the places, kernels, collectives and steps that most of their time belongs to."""

from array import array
from collections.abc import Sequence
from heapq import nlargest
from typing import Literal

import numpy as np

from redline.ledger.accounts import ACCOUNTS, Account
from redline.ledger.job.collective_table import CollectiveRow
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.host_activity import HostActivity
from redline.ledger.rank.kernel_table import KernelRow
from redline.ledger.rank.ledger import Amounts
from redline.values import dataclass


@dataclass(frozen=True, kw_only=True)
class IdleSite:
    """Idle time of one account, by call site; by region where no site is known; else by what the host did."""

    by: Literal["site", "region", "kind"]
    name: str
    share: float  # of the account, over all ranks and the whole window
    rows: tuple[HostActivity, ...]  # the largest first


@dataclass(frozen=True, kw_only=True)
class KernelShare:
    """One row of the table of kernels, and what share of an account is its."""

    row: KernelRow
    share: float


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One step of the job, over all ranks that have it."""

    number: int
    label: str
    ranks: int
    mean_ns: float
    longest_ns: int
    amounts: Amounts  # [account], added over ranks

    def share(self, account: Account) -> float:
        return float(self.amounts[ACCOUNTS.index(account)] / max(int(self.amounts.sum()), 1))


def places_of(diagnosis: Diagnosis, account: Account) -> tuple[IdleSite, ...]:
    """Where the host was while the device waited, the largest first."""
    total_ns = max(sum(rank.ledger.of(account) for rank in diagnosis.ranks), 1)
    groups: dict[tuple[Literal["site", "region", "kind"], str], list[HostActivity]] = {}
    for row in diagnosis.doing:
        if row.account == account:
            groups.setdefault(_place(row), []).append(row)
    places = [
        IdleSite(by=by, name=name, share=sum(row.time_ns for row in rows) / total_ns, rows=tuple(rows))
        for (by, name), rows in groups.items()
    ]
    return tuple(sorted(places, key=lambda place: (-place.share, place.name)))


def _place(row: HostActivity) -> tuple[Literal["site", "region", "kind"], str]:
    if row.site:
        return "site", row.site
    return ("region", row.region) if row.region else ("kind", row.name or row.kind)


def kernel_shares(diagnosis: Diagnosis, account: Account, most: int) -> tuple[KernelShare, ...]:
    """The rows of kernels with the largest parts in memory, kernel loss or unrated compute, the largest first."""
    parts = array("d", (_part_ns(row, account) for row in diagnosis.kernels))
    total_ns = sum(parts)
    largest = nlargest(most, range(len(parts)), key=lambda place: parts[place])
    return tuple(
        KernelShare(row=diagnosis.kernels[place], share=parts[place] / total_ns)
        for place in largest
        if parts[place] > 0
    )


def _part_ns(row: KernelRow, account: Account) -> float:
    if row.regime == "unknown":
        return float(row.time_ns) if account == Account.UNRATED else 0.0
    if account == Account.KERNEL_LOSS:
        return max(row.time_ns - row.roof_ns, 0.0)
    return max(row.memory_ns - row.math_ns, 0.0) if account == Account.MEMORY else 0.0


def largest_transfer(diagnosis: Diagnosis) -> CollectiveRow | None:
    """The collectives that were exposed for longest while all their ranks were there."""
    rows = [row for row in diagnosis.collectives if row.exposed_ns]
    return max(rows, key=lambda row: row.exposed_ns - min(row.wait_ns, row.exposed_ns), default=None)


def largest_wait(diagnosis: Diagnosis) -> tuple[CollectiveRow, float] | None:
    """The collectives in which ranks waited longest for others, and their share of all such waiting."""
    total_ns = sum(row.wait_ns for row in diagnosis.collectives)
    if not total_ns:
        return None
    row = max(diagnosis.collectives, key=lambda collective: collective.wait_ns)
    return row, row.wait_ns / total_ns


def step_rows(diagnosis: Diagnosis) -> tuple[StepRow, ...]:
    """The steps in order; the first of every rank is step 0, and so on."""
    ledgers = [rank.ledger for rank in diagnosis.ranks]
    rows = []
    for number in range(max((len(ledger.start_ns) for ledger in ledgers), default=0)):
        having = [index for index, ledger in enumerate(ledgers) if number < len(ledger.start_ns)]
        lengths = [int(ledgers[index].end_ns[number] - ledgers[index].start_ns[number]) for index in having]
        rows.append(
            StepRow(
                number=number,
                label=_label(diagnosis, having, number),
                ranks=len(having),
                mean_ns=sum(lengths) / len(lengths),
                longest_ns=max(lengths),
                amounts=np.sum([ledgers[index].steps[number] for index in having], axis=0),
            )
        )
    return tuple(rows)


def _label(diagnosis: Diagnosis, having: Sequence[int], number: int) -> str:
    labels = diagnosis.ranks[having[0]].origin.step_labels
    return labels[number] if number < len(labels) else ""
