"""RL-N05: gradients travel in fp32, and the time that takes is exposed."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import (
    FP32,
    exchanges_where,
    gradient_exchanges,
    in_steps_ns,
    latest,
    matter,
    open_by_step,
    transfer_of,
    untold,
    untold_figures,
)
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.ledger.job.combine import Diagnosis
from redline.numerics import Numerics

LEAST_SHARE = 0.05  # of the step
SAVED_SHARE = 0.5  # of the time, with half of the bytes
NARROW = ("bf16", "fp16", "fp8")
MOSTLY = 0.5  # of the arithmetic


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    """On GPUs: DDP's hook needs NCCL or XCCL, and refuses gloo."""
    if any(rank.facts.device != "gpu" for rank in diagnosis.ranks):
        return None
    chosen = [
        gradient_exchanges(rank) & exchanges_where(rank, lambda series: series.dtype in FP32)
        for rank in diagnosis.ranks
    ]
    if not matter(diagnosis, chosen, LEAST_SHARE):
        return None
    exposed = transfer_of(diagnosis, chosen)
    open_ns = [open_by_step(rank, mask) for rank, mask in zip(diagnosis.ranks, chosen, strict=True)]
    claims = [
        latest(rank, time, (SAVED_SHARE * of_rank).astype(np.int64))
        for rank, time, of_rank in zip(diagnosis.ranks, exposed, open_ns, strict=True)
    ]
    figures = {
        "exposed_ns": in_steps_ns(diagnosis, exposed),
        "open_ns": float(sum(of_rank.sum() for of_rank in open_ns)),
        "narrow": float(computes_narrow(diagnosis)),
        **untold_figures(diagnosis),
    }
    return JobMatch(claims=claims, figures=figures)


def computes_narrow(diagnosis: Diagnosis) -> bool:
    """Whether most arithmetic is in 16 bits or less, so that gradients lose little by being sent so."""
    flops = dict.fromkeys((False, True), 0.0)
    for rank in diagnosis.ranks:
        for arithmetic in rank.arithmetic:
            flops[arithmetic.dtype in NARROW] += arithmetic.flops
    return flops[True] > MOSTLY * sum(flops.values())


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "Gradients are exchanged in fp32 for {open_ns} of each {step_ns} step, {exposed_ns} of it exposed; half of the "
        "bytes would take half of the time.",
        {
            "open_ns": totals.per_step("open_ns"),
            "exposed_ns": totals.per_step("exposed_ns"),
            "step_ns": totals.step_ns,
        },
    )
    if totals.figures["narrow"]:
        yield Evidence("Most arithmetic of the job is in 16 bits or less already.")
    yield from untold(totals)


RULE = Rule(
    code="RL-N05",
    claims=ClaimOrder.GRADIENT_TRANSFER,
    numerics=Numerics.LOWER_PRECISION,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE * SAVED_SHARE,
    applies_to_plans=True,
)
