"""The questions that have names: the SQL of each, and what its columns are."""

from dataclasses import dataclass

from redline.lake.lake_answer import AnswerColumn
from redline.lake.schema import account_column
from redline.ledger.accounts import ACCOUNTS, Account

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


def _answered(*columns: str) -> tuple[AnswerColumn, ...]:
    """Of `name kind`."""
    return tuple(AnswerColumn(name=name, kind=kind) for name, kind in map(str.split, columns))


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
_LOSS_COLUMNS = ("jobs count", "gpu_hours hours", "lost_hours hours", "lost_share share", "largest_loss account")


def _lost_by(name: str, label: str) -> LakeQuestion:
    return LakeQuestion(
        name=name,
        sql=f"SELECT {label}, {_LOSSES} {_IN_STEPS} GROUP BY {label} ORDER BY lost_hours DESC, {label} LIMIT $top",
        columns=_answered(f"{label} text", *_LOSS_COLUMNS),
    )


_ACCOUNTS = LakeQuestion(
    name="accounts",
    sql=f"""
WITH sums AS (SELECT {", ".join(f'{_hours(account_column(a))} AS "{a}"' for a in ACCOUNTS)} {_IN_STEPS})
SELECT account, hours AS gpu_hours, hours / sum(hours) OVER () AS share, account IN ({_LOST_NAMES}) AS lost
FROM sums UNPIVOT (hours FOR account IN ({", ".join(f'"{account}"' for account in ACCOUNTS)}))
ORDER BY gpu_hours DESC, account LIMIT $top""",
    columns=_answered("account account", "gpu_hours hours", "share share", "lost yes"),
)
_JOBS = LakeQuestion(
    name="jobs",
    sql=f"""
SELECT job, any_value(team) AS team, any_value(model) AS model, max(world_size) AS world_size,
    sum(gpu_hours) AS gpu_hours, {_hours(_LOST_NS)} AS lost_hours, {_hours(_LOST_NS)} / sum(gpu_hours) AS lost_share,
    [{_LOST_NAMES}][list_position([{_listed(LOST)}], list_max([{_listed(LOST)}]))] AS largest_loss
{_IN_STEPS} GROUP BY job ORDER BY lost_hours DESC, job LIMIT $top""",
    columns=_answered("job text", "team text", "model text", "world_size count", *_LOSS_COLUMNS[1:]),
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
        "node text",
        "jobs count",
        "latest_in count",
        "expected number",
        "caused_hours hours",
        "cause cause",
        "chance chance",
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
    columns=_answered("cause cause", "jobs count", "ranks count", "caused_hours hours", "share share"),
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
        "team text",
        "model text",
        "jobs_before count",
        "jobs count",
        "gpu_hours hours",
        "lost_share_before share",
        "lost_share share",
        "change change",
        "grown hidden",
        "grew_most account",
        "step_change change",
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
        "job text",
        "team text",
        "model text",
        "device text",
        "world_size count",
        "similarity share",
        "step_ns duration",
        "lost_share share",
        "largest_loss account",
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
    columns=_answered("code finding", "jobs count", "gain_hours hours", "gain_beside_others hours", "money money"),
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
        "operator text", "dtype text", "jobs count", "kernel_hours hours", "above_roof_hours hours", "roof_share share"
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
