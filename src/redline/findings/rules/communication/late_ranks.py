"""RL-N13: ranks wait in collectives for others that come late."""

from collections.abc import Iterator

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Bearing, Evidence, Grade
from redline.findings.exposed import exchanges_where, held_up_until, last_part, waiting_of
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.lateness import BEFORE, Lateness, LateRank
from redline.ledger.rank.exchanges import POINT_TO_POINT
from redline.numerics import Numerics
from redline.replay.changes import Change, Target, TimeChange

LEAST_SHARE = 0.03  # of the step
TOLD_SHARE = 0.05  # of the waiting
ALSO_SHARE = 0.2  # of the waiting: a second rank that causes as much is named too


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    """All waiting but that for sends and receives, which stages of a pipeline have by their nature; and but that for
    a slower core, which no change of the job makes faster."""
    lateness = diagnosis.lateness
    if lateness is None:
        return None
    of_the_job = 1 - lateness.speed_share
    waited_ns = of_the_job * sum(time.length_ns for time in diagnosis.waiting)
    if waited_ns < LEAST_SHARE * float(diagnosis.in_steps.sum()):
        return None
    chosen = [exchanges_where(rank, lambda series: series.collective != POINT_TO_POINT) for rank in diagnosis.ranks]
    claims = [last_part(waiting, of_the_job) for waiting in waiting_of(diagnosis, chosen)]
    return JobMatch(
        claims=claims,
        beside=[
            last_part(held_up_until(rank.exposed, waiting), of_the_job)
            for rank, waiting in zip(diagnosis.ranks, claims, strict=True)
        ],
        figures={**_figures(lateness), "kinds": float(len(set(diagnosis.kinds)))},
        names=_names(lateness),
    )


def _figures(lateness: Lateness) -> dict[str, float]:
    worst, also = lateness.ranks[0], _also(lateness)
    return {
        "last": float(worst.last),
        "operations": float(lateness.operations),
        "caused_share": worst.share,
        "cause_ns": float(worst.cause_ns),
        "late_ns": float(worst.late_ns),
        "first_step_share": lateness.first_step_share,
        "speed_share": lateness.speed_share,
        "also_share": also.share if also is not None else 0.0,
    }


def _names(lateness: Lateness) -> dict[str, str]:
    worst, also = lateness.ranks[0], _also(lateness)
    return {
        "rank": str(worst.rank),
        "cause": worst.cause,
        "pattern": lateness.pattern,
        "also": str(also.rank) if also is not None else "",
    }


def _also(lateness: Lateness) -> LateRank | None:
    return next((rank for rank in lateness.ranks[1:] if rank.share >= ALSO_SHARE), None)


def what_if_job(diagnosis: Diagnosis) -> tuple[Change, ...]:
    """The late ranks are as fast as the others; where they change, every rank is as fast as the median."""
    lateness = diagnosis.lateness
    late = () if lateness is None or lateness.pattern == "rotating" else lateness.ranks[:1]
    also = None if lateness is None or not late else _also(lateness)
    ranks = tuple(sorted(rank.rank for rank in (*late, *(() if also is None else (also,)))))
    return (TimeChange(target=Target.RANK, ranks=ranks, factor=1.0, like_others=True),)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    figures, names = totals.figures, totals.names
    yield Evidence(
        "Ranks wait {waiting_ns} of each {step_ns} step for late ranks. Rank {rank} arrives last at "
        "{last} of {operations} collectives, {late_ns} late on average, and causes {caused_share} of the "
        "waiting there.",
        {
            "waiting_ns": totals.alone_ns,
            "step_ns": totals.step_ns,
            "rank": names["rank"],
            **{name: figures[name] for name in ("caused_share", "last", "operations", "late_ns")},
        },
    )
    yield _cause(names["cause"], {"rank": names["rank"], "cause_ns": figures["cause_ns"]})
    yield _pattern(names["pattern"], {"rank": names["rank"], "first_step_share": figures["first_step_share"]})
    if names["also"]:
        yield Evidence(
            "Rank {also} causes {also_share} of that waiting.",
            {"also": names["also"], "also_share": figures["also_share"]},
        )
    if figures["speed_share"] >= TOLD_SHARE:
        yield Evidence(
            "{speed_share} of all waiting is left out: there the late rank did the same work more slowly, as on a core "
            "that others use too.",
            {"speed_share": figures["speed_share"]},
        )
    if figures["kinds"] > 1:
        yield Evidence(
            "The ranks do {kinds} different kinds of work, so part of this follows from the parallel layout.",
            {"kinds": figures["kinds"]},
            Bearing.WEAKENS,
        )


def _cause(cause: str, values: dict[str, float | str]) -> Evidence:
    if cause == BEFORE:
        return Evidence(
            "Rank {rank} was already up to {cause_ns} late when the window began: the cause is not in the traces.",
            values,
            Bearing.WEAKENS,
        )
    if cause == "compute":
        return Evidence("Before that rank {rank} computes {cause_ns} longer than the median rank.", values)
    if cause == "communication":
        return Evidence(
            "Before that rank {rank} communicates and copies {cause_ns} longer than the median rank.", values
        )
    if cause == "input":
        return Evidence(
            "Before that rank {rank} waits {cause_ns} longer for its data loader than the median rank.", values
        )
    if cause == "host":
        return Evidence(
            "Before that the device of rank {rank} waits {cause_ns} longer for the host than that of the median rank.",
            values,
        )
    return Evidence("The traces do not show what takes rank {rank} longer than the median rank.", values)


def _pattern(pattern: str, values: dict[str, float | str]) -> Evidence:
    if pattern == "fixed":
        return Evidence("Most of that waiting is for the same rank.", values)
    if pattern == "rotating":
        return Evidence("The late rank changes: look for noise or uneven work rather than for a slow machine.", values)
    if pattern == "first step only":
        return Evidence(
            "Rank {rank} is late in the first step only, which has {first_step_share} of that waiting: the ranks may "
            "have started at different times.",
            values,
            Bearing.VOIDS,
        )
    return Evidence(
        "The traces hold only one step, so whether the same rank is late in every step is unknown.",
        values,
        Bearing.VOIDS,
    )


RULE = Rule(
    code="RL-N13",
    claims=ClaimOrder.LATE_RANKS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    what_if_job=what_if_job,
    least_share=LEAST_SHARE,
    applies_to_plans=True,
)
