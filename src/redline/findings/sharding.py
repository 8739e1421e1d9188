"""Which exchanges gather sharded parameters, as FSDP and ZeRO-3 do, and how long they are exposed."""

from collections.abc import Sequence

import numpy as np

from redline.findings import exposed as comm
from redline.findings.rule import JobMatch
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import FORWARD
from redline.ledger.rank.digest import Digest
from redline.timeline.intervals import Intervals
from redline.trace import schema


def parameter_gathers(rank: Digest) -> Mask:
    """All-gathers in a group that scatters gradients or gathers the same in both passes, but scatters nothing forward.

    Sequence parallelism gathers and scatters activations in both passes. Gloo has no reduce-scatter of its own: there
    FSDP2 is known by the operators that pack its units.
    """
    gathers = comm.exchanges_where(rank, lambda series: series.collective == "all_gather")
    if not gathers.any() or (
        rank.facts.device == "cpu" and any(schema.is_fsdp_copy(row.kernel) for row in rank.kernels)
    ):
        return gathers
    scatters = comm.exchanges_where(rank, lambda series: series.collective == "reduce_scatter")
    of_parameters = groups_of(rank, _in_both_passes(rank, gathers) | (scatters & comm.gradient_exchanges(rank)))
    of_activations = groups_of(rank, scatters & (rank.exchanges.backward == FORWARD))
    sharded = of_parameters - of_activations
    return gathers & comm.exchanges_where(rank, lambda series: series.group in sharded)


def gathered_again(rank: Digest, gathers: Mask) -> Mask:
    """All-gathers after the first forward pass of a step: of its backward pass, and of all passes of
    further micro-batches."""
    repeated = comm.like_one_of(rank, _in_both_passes(rank, gathers))
    if not repeated.any():
        return repeated
    return gathers & repeated & (_after_first_pass(rank) | (rank.exchanges.backward > 0))


def _in_both_passes(rank: Digest, gathers: Mask) -> Mask:
    """All-gathers of backward passes, of a size that forward passes gather too."""
    backward = rank.exchanges.backward
    return gathers & (backward > 0) & comm.like_one_of(rank, gathers & (backward == FORWARD))


def _after_first_pass(rank: Digest) -> Mask:
    """Exchanges after the first one of a backward pass in the same step."""
    exchanges = rank.exchanges
    step = np.searchsorted(rank.ledger.start_ns, exchanges.start_ns, side="right")
    before = np.cumsum(exchanges.backward > 0)
    first = np.searchsorted(step, step)  # of each exchange's step; they are in order of start
    after: Mask = before - np.append(0, before)[first] > 0
    return after


def exposed_gathers(
    diagnosis: Diagnosis, chosen: Sequence[Mask], least_share: float, too: Sequence[Mask] = ()
) -> JobMatch | None:
    """Chosen on each rank; nothing where they cannot be exposed for that share of the steps.

    `too` are those that the same fix hides.
    """
    if not comm.matter(diagnosis, chosen, least_share):
        return None
    gathers = sum(comm.begun_in_steps(*of_rank).sum() for of_rank in zip(diagnosis.ranks, chosen, strict=True))
    claims, hidden = comm.transfer_of(diagnosis, chosen), comm.hidden_with(diagnosis, too or chosen)
    beside = with_hooks(diagnosis, hidden, too or chosen)
    return JobMatch(claims, beside, gathers=gathers, **comm.untold_figures(diagnosis))


def with_hooks(diagnosis: Diagnosis, times: Sequence[Intervals], chosen: Sequence[Mask]) -> list[Intervals]:
    """For each rank this time, and hooks of FSDP in which one of the chosen exchanges begins: they pack, unpack and
    free parameters for it."""
    together = []
    for rank, time, mask in zip(diagnosis.ranks, times, chosen, strict=True):
        hooks, begun_ns = rank.fsdp_hooks, np.sort(rank.exchanges.start_ns[mask])
        begins = np.searchsorted(begun_ns, hooks.end) > np.searchsorted(begun_ns, hooks.start)
        together.append(time | Intervals(hooks.start[begins], hooks.end[begins]))
    return together


def groups_of(rank: Digest, chosen: Mask) -> set[str]:
    """The groups of ranks that these exchanges are in."""
    return {rank.series[number].group for number in np.unique(rank.exchanges.series[chosen]).tolist()}
