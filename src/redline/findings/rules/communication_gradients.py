"""Gradients that are exchanged too often, too wide or too late."""

import numpy as np

from redline.findings import exposed as comm
from redline.findings.evidence import Grade
from redline.findings.rule import ClaimOrder, JobMatch, adds, alone, ratio, rule, says, value
from redline.findings.sharding import with_hooks
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import AFTER_BACKWARD
from redline.ledger.rank.digest import Digest
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64

GRADIENT_ACCUMULATION_SHARE = 0.01  # of the step


@rule(
    "RL-N02",
    ClaimOrder.AVOIDABLE_EXCHANGES,
    Numerics.REASSOCIATION,
    Grade.DOCUMENTED,
    least_share=GRADIENT_ACCUMULATION_SHARE,
    applies_to_plans=True,
)
@says(
    "Up to {passes} backward passes precede each optimizer step, and each of them exchanges "
    "gradients: {early_share} of these exchanges could be skipped. They are exposed for {exposed_ns} "
    "of each {step_ns} step.",
    passes=value(lambda totals: totals.figures["passes"], "passes"),
    early_share=ratio("early", "all"),
    exposed_ns=alone,
)
@adds(comm.untold)
def gradient_accumulation(diagnosis: Diagnosis) -> JobMatch | None:
    """Gradients are exchanged in every backward pass, although only the last one before the optimizer needs it."""
    gradients = [comm.gradient_exchanges(rank) for rank in diagnosis.ranks]
    early = [exchanged_early(rank, mask) for rank, mask in zip(diagnosis.ranks, gradients, strict=True)]
    if not comm.matter(diagnosis, early, GRADIENT_ACCUMULATION_SHARE):
        return None
    figures = {
        "early": float(sum(mask.sum() for mask in early)),
        "all": float(sum(mask.sum() for mask in gradients)),
        "passes": max(
            float(rank.exchanges.backward[mask].max(initial=1))
            for rank, mask in zip(diagnosis.ranks, early, strict=True)
        ),
        **comm.untold_figures(diagnosis),
    }
    claims = [comm.time_of(rank, mask) for rank, mask in zip(diagnosis.ranks, early, strict=True)]
    return JobMatch(claims, with_hooks(diagnosis, comm.open_on_cpu(diagnosis, early), early), **figures)


def exchanged_early(rank: Digest, gradients: Mask) -> Mask:
    """Exchanges of passes that another one follows before the optimizer, which exchanges the same again."""
    backward = rank.exchanges.backward
    before_the_last = gradients & (backward > 1)
    if not before_the_last.any():
        return before_the_last
    return before_the_last & comm.like_one_of(rank, gradients & (backward == 1))


FP32_GRADIENTS_SHARE = 0.05  # of the step
SAVED_SHARE = 0.5  # of the time, with half of the bytes
NARROW = ("bf16", "fp16", "fp8")
MOSTLY_NARROW = 0.5  # of the arithmetic


@rule(
    "RL-N05",
    ClaimOrder.GRADIENT_TRANSFER,
    Numerics.LOWER_PRECISION,
    Grade.DOCUMENTED,
    least_share=FP32_GRADIENTS_SHARE * SAVED_SHARE,
    applies_to_plans=True,
)
@says(
    "Gradients are exchanged in fp32 for {open_ns} of each {step_ns} step, {exposed_ns} of it exposed; half of the "
    "bytes would take half of the time.",
    order="open_ns exposed_ns step_ns",
)
@says("Most arithmetic of the job is in 16 bits or less already.", when="narrow")
@adds(comm.untold)
def fp32_gradients(diagnosis: Diagnosis) -> JobMatch | None:
    """Gradients travel in fp32, and the time that takes is exposed.

    On GPUs: DDP's hook needs NCCL or XCCL, and refuses gloo.
    """
    if any(rank.facts.device != "gpu" for rank in diagnosis.ranks):
        return None
    chosen = [
        comm.gradient_exchanges(rank) & comm.exchanges_where(rank, lambda series: series.dtype in comm.FP32)
        for rank in diagnosis.ranks
    ]
    if not comm.matter(diagnosis, chosen, FP32_GRADIENTS_SHARE):
        return None
    exposed = comm.transfer_of(diagnosis, chosen)
    open_ns = [comm.open_by_step(rank, mask) for rank, mask in zip(diagnosis.ranks, chosen, strict=True)]
    claims = [
        comm.latest(rank, time, (SAVED_SHARE * of_rank).astype(np.int64))
        for rank, time, of_rank in zip(diagnosis.ranks, exposed, open_ns, strict=True)
    ]
    return JobMatch(
        claims,
        exposed_ns=comm.in_steps_ns(diagnosis, exposed),
        open_ns=sum(of_rank.sum() for of_rank in open_ns),
        narrow=computes_narrow(diagnosis),
        **comm.untold_figures(diagnosis),
    )


def computes_narrow(diagnosis: Diagnosis) -> bool:
    """Most arithmetic is in 16 bits or less, so that gradients lose little by being sent so."""
    flops = dict.fromkeys((False, True), 0.0)
    for rank in diagnosis.ranks:
        for arithmetic in rank.arithmetic:
            flops[arithmetic.dtype in NARROW] += arithmetic.flops
    return flops[True] > MOSTLY_NARROW * sum(flops.values())


REDUCED_AFTER_BACKWARD_SHARE = 0.03  # of the step
LEAST_BYTES = 64 * 1024  # per step: norms and flags are smaller, gradients of a model larger
MOSTLY_REDUCED = 0.5  # of the bytes that all-reduces of a step carry: the rest of the gradients may go another way


@rule(
    "RL-N22",
    ClaimOrder.LATE_GRADIENTS,
    Numerics.REASSOCIATION,
    Grade.DOCUMENTED,
    least_share=REDUCED_AFTER_BACKWARD_SHARE,
)
@says(
    "{exchanges:,} all-reduces per step, {payload_bytes} together, begin after the backward pass and before the "
    "optimizer. They are exposed for {exposed_ns} of each {step_ns} step: nothing is computed meanwhile.",
    payload_bytes=value(lambda totals: round(totals.per_step("bytes")), "bytes"),
    exposed_ns=alone,
)
@adds(comm.untold)
def reduced_after_backward(diagnosis: Diagnosis) -> JobMatch | None:
    """Gradients are all-reduced after the backward pass, when no compute is left to hide it."""
    chosen = [after_backward(rank) for rank in diagnosis.ranks]
    if not comm.matter(diagnosis, chosen, REDUCED_AFTER_BACKWARD_SHARE):
        return None
    ranks = list(zip(diagnosis.ranks, chosen, strict=True))
    figures = {
        "exchanges": float(sum(comm.begun_in_steps(rank, mask).sum() for rank, mask in ranks)),
        "bytes": float(sum(_payload_bytes(rank)[comm.begun_in_steps(rank, mask)].sum() for rank, mask in ranks)),
        **comm.untold_figures(diagnosis),
    }
    return JobMatch([_gained(rank, mask) for rank, mask in ranks], **figures)


def _gained(rank: Digest, late: Mask) -> Intervals:
    """The part that a GPU can hide; on a CPU all, as DDP exchanges fewer and larger tensors."""
    exposed = comm.time_of(rank, late)
    return exposed if rank.facts.device == "cpu" else comm.hideable(rank, exposed)


def after_backward(rank: Digest) -> Mask:
    """All-reduces of gradients that the script itself starts, once the backward pass is over."""
    reduced = comm.begun_in_steps(rank, comm.exchanges_where(rank, lambda series: series.collective == "all_reduce"))
    late: Mask = reduced & (rank.exchanges.backward == AFTER_BACKWARD)
    if not late.any():
        return late
    payload_bytes = _payload_bytes(rank)
    late_bytes = int(payload_bytes[late].sum())
    steps = max(len(rank.ledger.start_ns), 1)
    carries_gradients = late_bytes >= max(LEAST_BYTES * steps, MOSTLY_REDUCED * int(payload_bytes[reduced].sum()))
    return late if carries_gradients else np.zeros_like(late)


def _payload_bytes(rank: Digest) -> I64:
    sizes = np.array([series.payload_bytes for series in rank.series] or [0], np.int64)
    payload: I64 = sizes[rank.exchanges.series]
    return payload
