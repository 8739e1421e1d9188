"""The questions that have names: the SQL of each, and what its columns are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from math import lgamma, log
from typing import Any

import numpy as np
import numpy.typing as npt

from redline.lake.schema import account_column
from redline.ledger.accounts import ACCOUNTS, Account

Cell = str | int | float | bool | None
KINDS = ("text", "count", "hours", "share", "change", "duration", "money", "chance", "number")


@dataclass(frozen=True, kw_only=True)
class AnswerColumn:
    """A column of an answer; its kind says how it is shown."""

    name: str
    kind: str = "number"


@dataclass(frozen=True, kw_only=True)
class LakeAnswer:
    """Rows, and what is to be known about them."""

    columns: tuple[AnswerColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    cut: bool = False  # there were more rows than are kept
    facts: dict[str, Cell] = field(default_factory=dict)  # figures of the notes, by name

    def column(self, name: str) -> tuple[Cell, ...]:
        place = [column.name for column in self.columns].index(name)
        return tuple(row[place] for row in self.rows)


def plain_value(value: Any) -> Cell:
    """A value of any type of SQL, as a number or a text; what is infinite or no number is none."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Decimal):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return str(value)


# Nobody loses what the arithmetic and the bytes need, and of compute that cannot be rated nobody knows.
LOST = tuple(a for a in ACCOUNTS if a not in (Account.MATH, Account.MEMORY, Account.UNRATED))
WEEK_NS = 7 * 86_400 * 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class LakeQuestion:
    """A question, and the columns of its answer."""

    name: str
    sql: str
    columns: tuple[AnswerColumn, ...]
    needs: tuple[str, ...] = ()  # parameters without which it cannot be asked
    takes: tuple[str, ...] = ("top",)  # parameters of its SQL


def _answered(columns: str) -> tuple[AnswerColumn, ...]:
    """Names and kinds: `node text, jobs count`."""
    return tuple(AnswerColumn(name=name, kind=kind) for name, kind in map(str.split, columns.split(",")))


def _hours(amount: str) -> str:
    return f"sum(gpu_hours * ({amount}) / in_steps_ns)"


def _listed(accounts: tuple[Account, ...]) -> str:
    return ", ".join(_hours(account_column(account)) for account in accounts)


_LOST_NS = " + ".join(map(account_column, LOST))
_LOST_NAMES = ", ".join(f"'{account}'" for account in LOST)
_IN_STEPS = "FROM digests WHERE in_steps_ns > 0"
_LOSSES = f"""
    count(DISTINCT job) AS jobs,
    sum(gpu_hours) AS gpu_hours,
    {_hours(_LOST_NS)} AS lost_hours,
    {_hours(_LOST_NS)} / sum(gpu_hours) AS lost_share,
    [{_LOST_NAMES}][list_position([{_listed(LOST)}], list_max([{_listed(LOST)}]))] AS largest_loss"""
_LOSS_COLUMNS = "gpu_hours hours, lost_hours hours, lost_share share, largest_loss account"


def _lost_by(name: str, label: str) -> LakeQuestion:
    return LakeQuestion(
        name=name,
        sql=f"SELECT {label}, {_LOSSES} {_IN_STEPS} GROUP BY {label} ORDER BY lost_hours DESC, {label} LIMIT $top",
        columns=_answered(f"{label} text, jobs count, {_LOSS_COLUMNS}"),
    )


_ACCOUNTS = LakeQuestion(
    name="accounts",
    sql=f"""
WITH sums AS (SELECT {", ".join(f'{_hours(account_column(a))} AS "{a}"' for a in ACCOUNTS)} {_IN_STEPS})
SELECT account, hours AS gpu_hours, hours / sum(hours) OVER () AS share, account IN ({_LOST_NAMES}) AS lost
FROM sums UNPIVOT (hours FOR account IN ({", ".join(f'"{account}"' for account in ACCOUNTS)}))
ORDER BY gpu_hours DESC, account LIMIT $top""",
    columns=_answered("account account, gpu_hours hours, share share, lost yes"),
)
_JOBS = LakeQuestion(
    name="jobs",
    sql=f"""
SELECT job, any_value(team) AS team, any_value(model) AS model, max(world_size) AS world_size,
    sum(gpu_hours) AS gpu_hours, {_hours(_LOST_NS)} AS lost_hours, {_hours(_LOST_NS)} / sum(gpu_hours) AS lost_share,
    [{_LOST_NAMES}][list_position([{_listed(LOST)}], list_max([{_listed(LOST)}]))] AS largest_loss
{_IN_STEPS} GROUP BY job ORDER BY lost_hours DESC, job LIMIT $top""",
    columns=_answered(f"job text, team text, model text, world_size count, {_LOSS_COLUMNS}"),
)
# One row for each node of each job; `late_nodes` makes the answer of them.
_NODES = LakeQuestion(
    name="nodes",
    sql="""
SELECT job, node, count(DISTINCT rank) AS ranks, bool_or(rank <= 0) AS has_first_rank,
    sum(caused_ns / in_steps_ns) AS lateness, sum(gpu_hours * caused_ns / in_steps_ns) AS caused_hours,
    arg_max(late_cause, caused_ns) AS cause
FROM digests WHERE in_steps_ns > 0 AND node <> '' GROUP BY job, node ORDER BY job, node""",
    columns=_answered(
        "node text, jobs count, latest_in count, expected number, caused_hours hours, cause cause, chance chance"
    ),
    takes=(),
)
_WAITS = LakeQuestion(
    name="waits",
    sql="""
SELECT late_cause AS cause, count(DISTINCT job) AS jobs, count(*) AS ranks,
    sum(gpu_hours * caused_ns / in_steps_ns) AS caused_hours,
    caused_hours / sum(caused_hours) OVER () AS share
FROM digests WHERE in_steps_ns > 0 AND caused_ns > 0 GROUP BY cause ORDER BY caused_hours DESC, cause LIMIT $top""",
    columns=_answered("cause cause, jobs count, ranks count, caused_hours hours, share share"),
)
_CHANGES = LakeQuestion(
    name="changes",
    sql=f"""
WITH newest AS (SELECT max(end_ns) AS now_ns FROM digests),
weeks AS (
    SELECT team, model, end_ns > now_ns - {WEEK_NS} AS is_new, {_LOSSES},
        [{_listed(LOST)}].list_transform(lambda hours: hours / sum(gpu_hours)) AS shares,
        median(step_ns) AS step_ns
    FROM digests, newest WHERE in_steps_ns > 0 AND end_ns > now_ns - {2 * WEEK_NS} GROUP BY team, model, is_new)
SELECT team, model, old.jobs AS jobs_before, new.jobs AS jobs, new.gpu_hours AS gpu_hours,
    old.lost_share AS lost_share_before, new.lost_share AS lost_share, new.lost_share - old.lost_share AS change,
    list_transform(list_zip(new.shares, old.shares), lambda pair: pair[1] - pair[2]) AS grown,
    [{_LOST_NAMES}][list_position(grown, list_max(grown))] AS grew_most,
    new.step_ns / old.step_ns - 1 AS step_change
FROM (FROM weeks WHERE is_new) AS new JOIN (FROM weeks WHERE NOT is_new) AS old USING (team, model)
ORDER BY abs(change) * new.gpu_hours DESC, team, model LIMIT $top""",
    columns=_answered(
        "team text, model text, jobs_before count, jobs count, gpu_hours hours, "
        "lost_share_before share, lost_share share, change change, grown hidden, grew_most account, step_change change"
    ),
)
_LIKE = LakeQuestion(
    name="like",
    sql=f"""
WITH times AS (SELECT job, operator, sum(time_ns / in_steps_ns) AS amount FROM operators
        WHERE in_steps_ns > 0 GROUP BY job, operator),
lengths AS (SELECT job, sqrt(sum(amount * amount)) AS length FROM times GROUP BY job),
products AS (SELECT times.job, sum(times.amount * mine.amount) AS product
    FROM times JOIN times AS mine ON mine.operator = times.operator AND mine.job = $job GROUP BY times.job),
alike AS (SELECT job, product / lengths.length / (SELECT length FROM lengths WHERE job = $job) AS similarity
    FROM products JOIN lengths USING (job)),
jobs AS (SELECT job, any_value(team) AS team, any_value(model) AS model, any_value(device) AS device,
    max(world_size) AS world_size, median(step_ns) AS step_ns, {_hours(_LOST_NS)} / sum(gpu_hours) AS lost_share,
    [{_LOST_NAMES}][list_position([{_listed(LOST)}], list_max([{_listed(LOST)}]))] AS largest_loss
    {_IN_STEPS} GROUP BY job)
SELECT job, team, model, device, world_size, similarity, step_ns, lost_share, largest_loss
FROM jobs JOIN alike USING (job) ORDER BY job = $job DESC, similarity DESC, job LIMIT $top""",
    columns=_answered(
        "job text, team text, model text, device text, world_size count, similarity share, "
        "step_ns duration, lost_share share, largest_loss account"
    ),
    needs=("job",),
    takes=("top", "job"),
)
_FINDINGS = LakeQuestion(
    name="findings",
    sql="""
SELECT code, count(DISTINCT job) AS jobs, sum(gpu_hours * alone_share) AS gain_hours,
    sum(gpu_hours * bound_share) AS gain_beside_others, sum(gpu_hours * alone_share) * $price AS money
FROM findings GROUP BY code ORDER BY gain_hours DESC NULLS LAST, code LIMIT $top""",
    columns=_answered("code finding, jobs count, gain_hours hours, gain_beside_others hours, money money"),
    takes=("top", "price"),
)
_OPERATORS = LakeQuestion(
    name="operators",
    sql="""
SELECT operator, dtype, count(DISTINCT job) AS jobs, sum(gpu_hours * time_ns / in_steps_ns) AS kernel_hours,
    sum(gpu_hours * (time_ns - roof_ns) / in_steps_ns) AS above_roof_hours,
    sum(roof_ns) / sum(time_ns) FILTER (roof_ns IS NOT NULL) AS roof_share
FROM operators WHERE in_steps_ns > 0 GROUP BY operator, dtype
ORDER BY above_roof_hours DESC NULLS LAST, kernel_hours DESC, operator, dtype LIMIT $top""",
    columns=_answered(
        "operator text, dtype text, jobs count, kernel_hours hours, above_roof_hours hours, roof_share share"
    ),
)

QUESTIONS = {
    question.name: question
    for question in (
        _ACCOUNTS,
        _lost_by("teams", "team"),
        _lost_by("models", "model"),
        _lost_by("clusters", "cluster"),
        _lost_by("devices", "device"),
        _JOBS,
        _NODES,
        _WAITS,
        _CHANGES,
        _LIKE,
        _FINDINGS,
        _OPERATORS,
    )
}


# --- late nodes -------------------------------------------------------------------------------------------------------
# Tested against chance: each job puts its nodes in order of the waiting they cause. If lateness had nothing to do with
# nodes, each place in that order would be as likely as any other. A node's places over its jobs are added up as
# -log(place / nodes), and the chance of a sum as large is computed from the exact distribution. Every job counts once.
# The node of rank 0 is not judged in that job: logging and checkpoints make it late in any job.


MOST_FALSE = 0.01  # of lakes without any late node have one named
_WIDTH = 0.01  # of a bin of the distribution
_LEAST_CHANCE = 1e-12  # what the transform can tell from 0

I64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class JudgedNodes:
    """Each judged node with its evidence; the columns are as long as there are nodes."""

    nodes: tuple[str, ...]
    jobs: I64  # in which it was judged
    latest_in: I64  # jobs in which no other caused more
    expected: Floats  # of such jobs, by chance
    chance: Floats  # of evidence as strong, for a node like any other

    @property
    def late(self) -> npt.NDArray[np.bool_]:
        """By Holm's procedure, which holds the rate of false ones however many nodes are judged."""
        order = np.argsort(self.chance, kind="stable")
        allowed = MOST_FALSE / np.arange(len(order), 0, -1)
        holds = np.logical_and.accumulate(self.chance[order] <= allowed)
        late = np.zeros(len(order), bool)
        late[order[holds]] = True
        return late


def late_nodes(of_jobs: LakeAnswer, top: int) -> LakeAnswer:
    """`of_jobs` is what the SQL of the question says: a row for each node of each job."""
    question = QUESTIONS["nodes"]
    jobs, nodes = of_jobs.column("job"), of_jobs.column("node")
    judged = judged_nodes(
        jobs,
        nodes,
        ranks=np.array(of_jobs.column("ranks"), np.int64),
        has_first_rank=np.array(of_jobs.column("has_first_rank"), bool),
        lateness=np.array(of_jobs.column("lateness"), np.float64),
    )
    hours, cause = _caused(of_jobs)
    late = np.flatnonzero(judged.late)
    order = sorted(late.tolist(), key=lambda number: (judged.chance[number], -hours[judged.nodes[number]]))
    rows: list[tuple[Cell, ...]] = [
        (
            judged.nodes[number],
            int(judged.jobs[number]),
            int(judged.latest_in[number]),
            float(judged.expected[number]),
            hours[judged.nodes[number]],
            cause[judged.nodes[number]],
            float(min(judged.chance[number] * len(judged.nodes), 1.0)),
        )
        for number in order[:top]
    ]
    facts: dict[str, Cell] = {"judged_nodes": len(judged.nodes), "late_nodes": len(late), "jobs": len(set(jobs))}
    return LakeAnswer(columns=question.columns, rows=tuple(rows), facts=facts)


def _caused(of_jobs: LakeAnswer) -> tuple[dict[str, float], dict[str, str]]:
    """For each node the hours that others waited for it, and the cause of most of them."""
    hours: dict[str, float] = {}
    by_cause: dict[str, dict[str, float]] = {}
    names = ("node", "caused_hours", "cause")
    for node, caused, cause in zip(*(of_jobs.column(name) for name in names), strict=True):
        hours[str(node)] = hours.get(str(node), 0.0) + float(caused or 0.0)
        of_node = by_cause.setdefault(str(node), {})
        of_node[str(cause)] = of_node.get(str(cause), 0.0) + float(caused or 0.0)
    return hours, {node: max(of_node, key=lambda name: of_node[name]) for node, of_node in by_cause.items()}


def judged_nodes(
    jobs: Sequence[Cell],
    nodes: Sequence[Cell],
    *,
    ranks: I64,
    has_first_rank: npt.NDArray[np.bool_],
    lateness: Floats,
) -> JudgedNodes:
    """Nodes are compared within a job, and only with those that have as many of its ranks."""
    kept = ~has_first_rank
    _, job = np.unique(np.array(jobs, dtype=object)[kept].astype(str), return_inverse=True)
    names, node = np.unique(np.array(nodes, dtype=object)[kept].astype(str), return_inverse=True)
    ranks, lateness = ranks[kept], lateness[kept]
    _, group = np.unique(np.stack([job, ranks]), axis=1, return_inverse=True)
    group = group.reshape(-1)
    size = np.bincount(group)[group] if len(group) else group
    comparable = size > 1
    place = _places(group, lateness)[comparable]
    node, size = node[comparable], size[comparable]
    present, node = np.unique(node, return_inverse=True)
    scores = _sums(node, np.log(size / place), len(present))
    return JudgedNodes(
        nodes=tuple(names[present].tolist()),
        jobs=np.bincount(node, minlength=len(present)),
        latest_in=np.bincount(node[place == 1], minlength=len(present)),
        expected=_sums(node, 1 / size, len(present)),
        chance=_chances(scores, node, size),
    )


def _sums(node: I64, amounts: Floats, nodes: int) -> Floats:
    return np.bincount(node, weights=amounts, minlength=nodes).astype(np.float64)


def _places(group: I64, lateness: Floats) -> I64:
    """For each row how many of its group are at least as late, itself included."""
    order = np.lexsort((-lateness, group))
    place = np.empty(len(order), np.int64)
    if not len(order):
        return place
    ordered_group, ordered = group[order], lateness[order]
    number = np.arange(len(order))
    first = np.flatnonzero(np.diff(ordered_group, prepend=-1))
    begin = np.repeat(first, np.diff(np.append(first, len(order))))
    # Of equal ones each has the last place among them: the test stays on the safe side.
    last_equal = np.ones(len(order), bool)
    last_equal[:-1] = (np.diff(ordered_group) != 0) | (np.diff(ordered) != 0)
    ends = np.flatnonzero(last_equal)
    place[order] = ends[np.searchsorted(ends, number)] - begin + 1
    return place


def _chances(scores: Floats, node: I64, size: I64) -> Floats:
    """For each node the chance of a score as large as its own; 1 where it is no larger than usual."""
    order = np.argsort(node, kind="stable")
    sizes = np.split(size[order], np.flatnonzero(np.diff(node[order])) + 1) if len(node) else []
    chances = np.ones(len(scores))
    for number, of_node in enumerate(sizes):
        if scores[number] > sum(map(_usual, of_node.tolist())):
            chances[number] = chance_of(float(scores[number]), of_node)
    return chances


def chance_of(score: float, sizes: I64) -> float:
    """Of a sum of -log(place / nodes) as large as this, where each place in jobs of these sizes is equally likely.

    Exact but for the bins: what could be is rounded up, what was is rounded down.
    """
    bins = int(np.ceil(np.log(sizes) / _WIDTH).sum()) + 1
    length = 1 << (bins - 1).bit_length()
    different, count = np.unique(sizes, return_counts=True)
    product = np.ones(length // 2 + 1, np.complex128)
    for nodes, times in zip(different.tolist(), count.tolist(), strict=True):
        product *= _transformed(nodes, length) ** times
    chances = np.fft.irfft(product, length)[int(score / _WIDTH + 1e-6) : bins]
    return float(np.clip(chances.sum(), _LEAST_CHANCE, 1.0))


@lru_cache(4096)
def _usual(nodes: int) -> float:
    return log(nodes) - lgamma(nodes + 1) / nodes


@lru_cache(256)
def _transformed(nodes: int, length: int) -> npt.NDArray[np.complex128]:
    """The distribution of the score in one job, for the convolution."""
    score_bins = np.ceil(np.log(nodes / np.arange(1, nodes + 1)) / _WIDTH).astype(np.int64)
    return np.fft.rfft(np.bincount(score_bins, minlength=length) / nodes, length)
