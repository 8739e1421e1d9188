"""Which exchanges gather sharded parameters, as FSDP and ZeRO-3 do."""

import numpy as np

from redline.analysis.rank.activity import Mask
from redline.analysis.rank.digest import Digest
from redline.analysis.rank.passes import FORWARD
from redline.findings.exposed import exchanges_where, gradient_exchanges


def parameter_gathers(rank: Digest) -> Mask:
    """All-gathers in a group that scatters gradients, and nothing in the forward pass.

    Sequence parallelism gathers and scatters activations in both passes.
    """
    scatters = exchanges_where(rank, lambda series: series.collective == "reduce_scatter")
    of_activations = _groups(rank, scatters & (rank.exchanges.backward == FORWARD))
    of_gradients = _groups(rank, scatters & gradient_exchanges(rank))
    sharded = of_gradients - of_activations
    return exchanges_where(rank, lambda series: series.collective == "all_gather" and series.group in sharded)


def _groups(rank: Digest, chosen: Mask) -> set[str]:
    return {rank.series[number].group for number in np.unique(rank.exchanges.series[chosen]).tolist()}
