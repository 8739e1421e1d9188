"""All-gathers of parameters and activations that are not hidden."""

import numpy as np

from redline.findings.evidence import Grade
from redline.findings.exposed import begun_in_steps, exchanges_where, matter, time_of, untold, untold_figures
from redline.findings.rule import ClaimOrder, JobMatch, adds, alone, rule, says
from redline.findings.sharding import exposed_gathers, gathered_again, groups_of, parameter_gathers
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import FORWARD
from redline.ledger.rank.digest import Digest
from redline.numerics import Numerics

FSDP_FORWARD_GATHER_SHARE = 0.03  # of the step
SMALL_BYTES = 1 << 19  # over loopback a gather takes longer to begin than to carry as much


@rule(
    "RL-N06",
    ClaimOrder.TRANSFER,
    Numerics.BITWISE,
    Grade.MEASURED,
    least_share=FSDP_FORWARD_GATHER_SHARE,
    applies_to_plans=True,
)
@says(
    "{gathers:,} parameter all-gathers in the forward pass of a step are exposed for {exposed_ns} of "
    "{step_ns}: they start too late to be hidden.",
    exposed_ns=alone,
)
@adds(untold)
def fsdp_forward_gather(diagnosis: Diagnosis) -> JobMatch | None:
    """The forward pass waits for parameters to be gathered.

    On a CPU gathers run beside nothing, so that all there is to gain is their number; larger units have fewer
    reductions too.
    """
    gathers = [parameter_gathers(rank) for rank in diagnosis.ranks]
    chosen = [mask & (rank.exchanges.backward == FORWARD) for rank, mask in zip(diagnosis.ranks, gathers, strict=True)]
    pairs = zip(diagnosis.ranks, chosen, strict=True)
    if any(rank.facts.device == "cpu" and not _are_small(rank, mask) for rank, mask in pairs):
        return None
    fewer = [mask | (rank.facts.device == "cpu") for rank, mask in zip(diagnosis.ranks, gathers, strict=True)]
    return exposed_gathers(diagnosis, chosen, FSDP_FORWARD_GATHER_SHARE, too=fewer)


def _are_small(rank: Digest, gathers: Mask) -> bool:
    sizes = np.array([series.payload_bytes for series in rank.series])[rank.exchanges.series[gathers]]
    return bool(len(sizes)) and float(np.median(sizes)) < SMALL_BYTES


FSDP_REGATHER_SHARE = 0.03  # of the step


@rule(
    "RL-N07",
    ClaimOrder.REPEATED_GATHERS,
    Numerics.BITWISE,
    Grade.DOCUMENTED,
    least_share=FSDP_REGATHER_SHARE,
    applies_to_plans=True,
)
@says(
    "{gathers:,} all-gathers of a step fetch parameters that its first forward pass already had; they are exposed "
    "for {exposed_ns} of {step_ns}.",
    exposed_ns=alone,
)
@adds(untold)
def fsdp_regather(diagnosis: Diagnosis) -> JobMatch | None:
    """Parameters that the forward pass had gathered are gathered again in the backward pass."""
    chosen = [gathered_again(rank, parameter_gathers(rank)) for rank in diagnosis.ranks]
    return exposed_gathers(diagnosis, chosen, FSDP_REGATHER_SHARE)


TENSOR_PARALLEL_GATHERS_SHARE = 0.03  # of the step
LEAST_PER_STEP = 4  # one gathers the logits at the end, two or three numbers of a metric
MUCH_SHARE = 0.1  # of the step: then a single one matters too
LEAST_BYTES = 16 * 1024  # of each: metrics are smaller


@rule(
    "RL-N23",
    ClaimOrder.AVOIDABLE_TRANSFER,
    Numerics.REASSOCIATION,
    Grade.DOCUMENTED,
    least_share=TENSOR_PARALLEL_GATHERS_SHARE,
)
@says(
    "{gathers:,} all-gathers of activations in the forward pass of a step are exposed for {exposed_ns} of "
    "{step_ns}, in a group of ranks that scatters none of them again.",
    exposed_ns=alone,
)
@adds(untold)
def tensor_parallel_gathers(diagnosis: Diagnosis) -> JobMatch | None:
    """Tensor parallelism gathers the whole output of each layer, and the next layer splits it again."""
    chosen = [_gathers(rank) for rank in diagnosis.ranks]
    count = sum(int(mask.sum()) for mask in chosen)
    few = count < LEAST_PER_STEP * diagnosis.rank_steps
    if not matter(diagnosis, chosen, MUCH_SHARE if few else TENSOR_PARALLEL_GATHERS_SHARE):
        return None
    ranks = list(zip(diagnosis.ranks, chosen, strict=True))
    return JobMatch(
        [time_of(rank, mask) for rank, mask in ranks],
        [time_of(rank, _reduced_too(rank, mask)) for rank, mask in ranks],
        gathers=count,
        **untold_figures(diagnosis),
    )


def _gathers(rank: Digest) -> Mask:
    """All-gathers of activations in forward passes; sequence parallelism, which needs them, scatters there too."""
    gathers = begun_in_steps(rank, exchanges_where(rank, lambda series: series.collective == "all_gather"))
    gathers &= (rank.exchanges.backward == FORWARD) & ~parameter_gathers(rank)
    gathers &= exchanges_where(rank, lambda series: series.payload_bytes >= LEAST_BYTES)
    scatters = exchanges_where(rank, lambda series: series.collective == "reduce_scatter")
    scattering = groups_of(rank, scatters)
    return gathers & exchanges_where(rank, lambda series: series.group not in scattering)


def _reduced_too(rank: Digest, gathers: Mask) -> Mask:
    """All-reduces of the same ranks: of gradients of the inputs of each layer, of which the pair needs half."""
    groups = groups_of(rank, gathers)
    return exchanges_where(rank, lambda series: series.collective == "all_reduce" and series.group in groups)
