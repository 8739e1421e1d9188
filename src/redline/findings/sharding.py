"""Which exchanges gather sharded parameters, as FSDP and ZeRO-3 do, and how long they are exposed."""

from collections.abc import Sequence

import numpy as np

from redline.analysis.job.combine import Diagnosis
from redline.analysis.rank.activity import Mask
from redline.analysis.rank.backward_passes import FORWARD
from redline.analysis.rank.digest import Digest
from redline.findings.exposed import (
    begun_in_steps,
    exchanges_where,
    gradient_exchanges,
    matter,
    transfer_of,
    untold_figures,
)
from redline.findings.rule import JobMatch


def parameter_gathers(rank: Digest) -> Mask:
    """All-gathers in a group that scatters gradients or gathers the same in both passes, but scatters nothing forward.

    Sequence parallelism gathers and scatters activations in both passes. Gloo has no reduce-scatter of its own.
    """
    gathers = exchanges_where(rank, lambda series: series.collective == "all_gather")
    if not gathers.any():
        return gathers
    scatters = exchanges_where(rank, lambda series: series.collective == "reduce_scatter")
    of_parameters = _groups(rank, gathered_again(rank, gathers) | (scatters & gradient_exchanges(rank)))
    of_activations = _groups(rank, scatters & (rank.exchanges.backward == FORWARD))
    sharded = of_parameters - of_activations
    return gathers & exchanges_where(rank, lambda series: series.group in sharded)


def gathered_again(rank: Digest, gathers: Mask) -> Mask:
    """Of these all-gathers those of the backward pass, of a size that the forward pass gathers too."""
    series, backward = rank.exchanges.series, rank.exchanges.backward
    return gathers & (backward > 0) & np.isin(series, series[gathers & (backward == FORWARD)])


def exposed_gathers(diagnosis: Diagnosis, chosen: Sequence[Mask], least_share: float) -> JobMatch | None:
    """Chosen on each rank; nothing where they cannot be exposed for that share of the steps."""
    if not matter(diagnosis, chosen, least_share):
        return None
    gathers = sum(begun_in_steps(*of_rank).sum() for of_rank in zip(diagnosis.ranks, chosen, strict=True))
    figures = {"gathers": float(gathers), **untold_figures(diagnosis)}
    return JobMatch(claims=transfer_of(diagnosis, chosen), figures=figures)


def _groups(rank: Digest, chosen: Mask) -> set[str]:
    return {rank.series[number].group for number in np.unique(rank.exchanges.series[chosen]).tolist()}
