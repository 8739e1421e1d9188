"""Exposed communication of a job, by what is exchanged: what the rules about communication choose from and claim."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from redline.findings.evidence import Bearing, Evidence
from redline.findings.rule import MatchTotals
from redline.ledger.accounts import COMPUTE, place
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import FORWARD
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.exchanges import REDUCTIONS, CollectiveSeries
from redline.ledger.rank.rank_analysis import LATENCY_NS
from redline.timeline.intervals import Intervals
from redline.timeline.rank_axis import RankAxis, blocks_of
from redline.timeline.table import I64
from redline.values import dataclass

FP32 = frozenset({"Float", "float"})
_NONE = Intervals.empty()
_UNTOLD_SHARE = 0.03  # of the exposed communication: what nobody can tell from waiting


# --- which exchanges --------------------------------------------------------------------------------------------------


def exchanges_where(rank: Digest, is_meant: Callable[[CollectiveSeries], bool]) -> Mask:
    """Which exchanges of a rank belong to a series that is meant."""
    are_meant = [is_meant(series) for series in rank.series]
    if not any(are_meant):
        return np.zeros(len(rank.exchanges), bool)
    meant: Mask = np.array(are_meant)[rank.exchanges.series]
    return meant


def like_one_of(rank: Digest, chosen: Mask) -> Mask:
    """Which exchanges are of a series that one of the chosen is of."""
    if not chosen.any():
        return chosen
    is_chosen = np.zeros(len(rank.series), bool)
    is_chosen[rank.exchanges.series[chosen]] = True
    alike: Mask = is_chosen[rank.exchanges.series]
    return alike


def gradient_exchanges(rank: Digest) -> Mask:
    """All-reduces and reduce-scatters of the backward pass whose like the forward pass does not have.

    Tensor parallelism exchanges activations in both passes, and their gradients have the same size.
    """
    reduces = exchanges_where(rank, lambda series: series.collective in REDUCTIONS)
    if not reduces.any():
        return reduces
    sized = exchanges_where(rank, lambda series: series.in_elements >= 0)
    backward = rank.exchanges.backward
    activations = sized & like_one_of(rank, reduces & (backward == FORWARD))
    return reduces & (backward > 0) & ~activations


def begun_in_steps(rank: Digest, chosen: Mask) -> Mask:
    if not chosen.any():
        return chosen
    steps = Intervals.union_of(rank.ledger.start_ns, rank.ledger.end_ns)
    return chosen & steps.contains(rank.exchanges.start_ns)


def matter(diagnosis: Diagnosis, chosen: Sequence[Mask], least_share: float) -> bool:
    """The chosen exchanges can be exposed for this share of the steps at all: quick to say for many ranks."""
    exposed_ns = 0
    for rank, mask in zip(diagnosis.ranks, chosen, strict=True):
        exchanges = rank.exchanges
        exposed_ns += int(np.sum((exchanges.end_ns - exchanges.start_ns - exchanges.hidden_ns)[mask]))
    return 0 < exposed_ns >= least_share * float(diagnosis.in_steps.sum())


# --- when -------------------------------------------------------------------------------------------------------------


def time_of(rank: Digest, chosen: Mask) -> Intervals:
    """When any of the chosen exchanges was open and exposed, on the clock of the ledger."""
    exchanges = rank.exchanges
    if not chosen.any():
        return Intervals.empty()
    return Intervals.union_of(exchanges.start_ns[chosen], exchanges.end_ns[chosen]) & rank.exposed


def transfer_of(diagnosis: Diagnosis, chosen: Sequence[Mask]) -> list[Intervals]:
    """For each rank the exposed time of its chosen exchanges in which all ranks were there."""
    return [time for block in _blocks(diagnosis, chosen) for time in block.split(block.exposed - block.waiting)]


def waiting_of(diagnosis: Diagnosis, chosen: Sequence[Mask]) -> list[Intervals]:
    """For each rank the exposed time of its chosen exchanges in which it waited for others."""
    if all(mask.all() for mask in chosen):
        return list(diagnosis.waiting)
    return [time for block in _blocks(diagnosis, chosen) for time in block.split(block.exposed & block.waiting)]


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Exposed time of chosen exchanges of some ranks, and their waiting, side by side."""

    ranks: int
    concerned: Sequence[int]  # which of them have chosen exchanges
    side_by_side: RankAxis  # of these
    exposed: Intervals
    waiting: Intervals

    def split(self, time: Intervals) -> list[Intervals]:
        split = dict(zip(self.concerned, self.side_by_side.split(time), strict=True))
        return [split.get(place, _NONE) for place in range(self.ranks)]


def _blocks(diagnosis: Diagnosis, chosen: Sequence[Mask]) -> Iterator[_Block]:
    for places in blocks_of(len(chosen)):
        concerned = [place for place, mask in enumerate(chosen[places]) if mask.any()]
        ranks = [diagnosis.ranks[places.start + place] for place in concerned]
        if not ranks:
            nothing = RankAxis.of([])
            yield _Block(ranks=_size(places), concerned=[], side_by_side=nothing, exposed=_NONE, waiting=_NONE)
            continue
        masks = [chosen[places.start + place] for place in concerned]
        side_by_side = RankAxis.of([rank.window_ns for rank in ranks])
        starts, ends = (
            side_by_side.moments([getattr(rank.exchanges, name)[mask] for rank, mask in zip(ranks, masks, strict=True)])
            for name in ("start_ns", "end_ns")
        )
        yield _Block(
            ranks=_size(places),
            concerned=concerned,
            side_by_side=side_by_side,
            exposed=Intervals.union_of(starts, ends) & side_by_side.joined([rank.exposed for rank in ranks]),
            waiting=side_by_side.joined([diagnosis.waiting[places.start + place] for place in concerned]),
        )


def _size(places: slice) -> int:
    return int(places.stop - places.start)


def open_on_cpu(diagnosis: Diagnosis, chosen: Sequence[Mask]) -> list[Intervals]:
    """For each rank that computes on its CPU, when any of the chosen exchanges was open: they take the same cores, so
    that what is computed meanwhile takes longer. Exposed or not, waiting or not."""
    return [
        Intervals.union_of(rank.exchanges.start_ns[mask], rank.exchanges.end_ns[mask])
        if rank.facts.device == "cpu"
        else Intervals.empty()
        for rank, mask in zip(diagnosis.ranks, chosen, strict=True)
    ]


def held_up_until(exposed: Intervals, time: Intervals) -> Intervals:
    """Exposed communication up to the end of the last of this time, stretch by stretch: what else is exchanged in
    between stands in the queue before it, and would be hidden without it."""
    stretches = Intervals.union_of(exposed.start, exposed.end + LATENCY_NS)
    last = np.searchsorted(time.end, stretches.end, side="right") - 1
    until_ns = np.append(time.end, np.iinfo(np.int64).min)[last]  # without any: before all time
    return Intervals.union_of(stretches.start, np.maximum(until_ns, stretches.start)) & exposed


def hidden_with(diagnosis: Diagnosis, chosen: Sequence[Mask]) -> list[Intervals]:
    """For each rank all that goes when the chosen exchanges are hidden: their transfer, that of others which compute
    waits for on the way to them, and waiting of ranks that are late in turn."""
    ranks = zip(diagnosis.ranks, chosen, diagnosis.waiting, _least_waiting(diagnosis, chosen), strict=True)
    return [held_up_until(rank.exposed, time_of(rank, mask)) - waiting | least for rank, mask, waiting, least in ranks]


def _least_waiting(diagnosis: Diagnosis, chosen: Sequence[Mask]) -> list[Intervals]:
    """For each rank its waiting in the chosen exchanges, in those steps in which no other rank waits less.

    Ranks that need not meet so often no longer hold up each other by turns. But no rank gets faster, so the one that
    waits least gains its own waiting, and the others no more.
    """
    waiting = waiting_of(diagnosis, chosen)
    ledgers = [rank.ledger for rank in diagnosis.ranks]
    steps = min(len(ledger.start_ns) for ledger in ledgers)
    borders = [(ledger.start_ns[:steps], ledger.end_ns[:steps]) for ledger in ledgers]
    amounts = [time.overlap_with(*of_rank) for time, of_rank in zip(waiting, borders, strict=True)]
    least = np.argmin(amounts, axis=0)
    return [
        time & Intervals.union_of(start_ns[least == number], end_ns[least == number])
        for number, (time, (start_ns, end_ns)) in enumerate(zip(waiting, borders, strict=True))
    ]


def open_by_step(rank: Digest, chosen: Mask) -> I64:
    """How long any of the chosen exchanges was open in each step, hidden or not."""
    exchanges, ledger = rank.exchanges, rank.ledger
    open_time = Intervals.union_of(exchanges.start_ns[chosen], exchanges.end_ns[chosen])
    return open_time.overlap_with(ledger.start_ns, ledger.end_ns)


def hideable(rank: Digest, time: Intervals) -> Intervals:
    """The last part of exposed time in each step, no longer than what is computed in it: no more can hide."""
    return latest(rank, time, rank.ledger.steps[:, [place(account) for account in COMPUTE]].sum(axis=1))


def latest(rank: Digest, time: Intervals, most_ns: I64) -> Intervals:
    """The last part of this time in each step, at most so long."""
    start_ns, end_ns = rank.ledger.start_ns, rank.ledger.end_ns
    if not len(time) or not len(start_ns):
        return Intervals.empty()
    inside = time & Intervals.union_of(start_ns, end_ns)
    borders = start_ns[inside.contains(start_ns)]
    starts, ends = (np.sort(np.concatenate((edges, borders))) for edges in (inside.start, inside.end))
    step = start_ns.searchsorted(starts, side="right") - 1
    before_ns = np.cumsum(ends - starts) - (ends - starts)
    of_step_ns = before_ns - before_ns[step.searchsorted(step)]
    beyond_ns = np.maximum(time.overlap_with(start_ns, end_ns) - most_ns, 0)[step]
    return Intervals.union_of(np.minimum(starts + np.maximum(beyond_ns - of_step_ns, 0), ends), ends)


def last_part(time: Intervals, share: float) -> Intervals:
    """The last part of each interval: what a fix that makes exchanges shorter saves."""
    saved: I64 = np.floor((time.end - time.start) * share).astype(np.int64)
    return Intervals.union_of(time.end - saved, time.end)


# --- what can be said of all of them ----------------------------------------------------------------------------------


def untold_figures(diagnosis: Diagnosis) -> dict[str, float]:
    """The share of exposed communication that was seen on one rank only; and whether all ranks were recorded."""
    share = diagnosis.unmatched_ns / diagnosis.exposed_ns if diagnosis.exposed_ns else 0.0
    all_recorded = 1 < len(diagnosis.ranks) >= diagnosis.world_size
    return {"untold_share": share, "all_recorded": float(all_recorded)}


def unknown_exchanges(rank: Digest) -> Mask:
    """Exchanges of which not even the kind is known."""
    return exchanges_where(rank, lambda series: series.collective == "unknown")


def in_steps_ns(diagnosis: Diagnosis, times: Sequence[Intervals]) -> float:
    """The part of these times of each rank that is inside its steps, added up."""
    ledgers = (rank.ledger for rank in diagnosis.ranks)
    pairs = zip(ledgers, times, strict=True)
    return float(sum(int(time.overlap_with(ledger.start_ns, ledger.end_ns).sum()) for ledger, time in pairs))


def untold(totals: MatchTotals) -> Iterator[Evidence]:
    """Where exchanges were seen on one rank only, what looks like transfer may have been waiting."""
    share = totals.figures.get("untold_share", 0.0)
    if share > _UNTOLD_SHARE and totals.figures.get("all_recorded"):
        yield Evidence(
            "{untold_share} of the exposed communication could not be matched between the ranks, so it may include "
            "waiting for late ranks.",
            {"untold_share": share},
            Bearing.WEAKENS,
        )
    elif share > _UNTOLD_SHARE:
        yield Evidence(
            "For {untold_share} of the exposed communication no other rank was recorded, so it may include "
            "waiting for late ranks: diagnose all ranks together.",
            {"untold_share": share},
            Bearing.WEAKENS,
        )
    unknown = totals.per_step("unknown_ns")
    if unknown > _UNTOLD_SHARE * totals.step_ns:
        yield Evidence(
            "{unknown_ns} of that is in collectives of unknown kind, because their launch was not recorded: they are "
            "taken for gradient all-reduces.",
            {"unknown_ns": unknown},
            Bearing.WEAKENS,
        )
