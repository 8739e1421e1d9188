"""Percentiles of what clients feel, each divided by what the requests near it waited for."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from redline.serving.request_ledger import RequestLedger
from redline.timeline.table import I64

PERCENTILES = (50, 90, 99)
SLOWEST = PERCENTILES[-1]
_NEAR = 0.05  # of the requests, those whose latency is nearest to a percentile, speak for it


class Latency(StrEnum):
    """From arrival to the first token; after it, per token; from a token to the next; from arrival to the last."""

    TTFT = "TTFT"
    TPOT = "TPOT"
    ITL = "ITL"
    END_TO_END = "end to end"


@dataclass(frozen=True, kw_only=True)
class LatencySplit:
    """One percentile: `amounts_ns` are by account of requests, and add up to `near_ns`."""

    latency: Latency
    percentile: int
    value_ns: float
    near_ns: float  # the mean of the requests that speak for it
    amounts_ns: tuple[float, ...]
    requests: int  # that speak for it; of ITL, tokens

    def share(self, *accounts: int) -> float:
        return sum(self.amounts_ns[account] for account in accounts) / self.near_ns if self.near_ns else 0.0


def latency_splits(ledger: RequestLedger, percentiles: Sequence[int] = PERCENTILES) -> tuple[LatencySplit, ...]:
    """None of a latency that no request has: a single token has no time per token."""
    first, last = ledger.to_first_token, ledger.to_last_token
    several = np.flatnonzero(ledger.tokens > 1)
    per_token = np.maximum(ledger.tokens[several] - 1, 1)
    decoding = (last.amounts_ns - first.amounts_ns)[several] / per_token[:, None]
    found: list[LatencySplit] = []
    for latency, amounts in (
        (Latency.TTFT, first.amounts_ns.astype(float)),
        (Latency.TPOT, decoding),
        (Latency.ITL, ledger.between_tokens_ns.astype(float)),
        (Latency.END_TO_END, last.amounts_ns.astype(float)),
    ):
        if len(amounts):
            found += [_split(latency, percentile, amounts) for percentile in percentiles]
    return tuple(found)


def slowest(splits: Sequence[LatencySplit], latency: Latency) -> LatencySplit | None:
    """None of a latency that no request has."""
    return next((one for one in splits if (one.latency, one.percentile) == (latency, SLOWEST)), None)


def _split(latency: Latency, percentile: int, amounts_ns: npt.NDArray[np.float64]) -> LatencySplit:
    lengths = amounts_ns.sum(axis=1)
    value = float(np.percentile(lengths, percentile))
    chosen: I64 = np.argsort(np.abs(lengths - value), kind="stable")[: max(round(_NEAR * len(lengths)), 1)]
    mean = amounts_ns[chosen].mean(axis=0)
    return LatencySplit(
        latency=latency,
        percentile=percentile,
        value_ns=value,
        near_ns=float(mean.sum()),
        amounts_ns=tuple(mean.tolist()),
        requests=len(chosen),
    )
