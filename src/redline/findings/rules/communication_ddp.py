"""Exchanges, copies and searches of DistributedDataParallel."""

from collections.abc import Sequence

import numpy as np

from redline.findings import exposed as comm
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import launched_by
from redline.findings.rule import (
    ClaimOrder,
    JobMatch,
    MatchTotals,
    RuleMatch,
    adds,
    alone,
    per_step,
    ratio,
    rule,
    says,
    total,
    value,
)
from redline.findings.rules.communication_gradients import computes_narrow, exchanged_early
from redline.findings.sharding import parameter_gathers
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import FORWARD
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.host_phases import PHASES, Phase
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.phases import KINDS, PhaseKind
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

LEAST_SHARE = 0.05  # of the step
MOSTLY_LAST = 0.5  # of the exposed time
MANY_SMALL = 32  # to a step, none larger than the first bucket of DDP: its buckets are fewer, or larger
MANY_UNKNOWN = 256  # to a step, of unknown size: as buckets of DDP these would be 6 GiB of gradients
MANY_ON_CPU = 8  # to a step
FIRST_BUCKET_BYTES = 1 << 20  # that DDP sends: smaller ones cost latency more than bandwidth


def _left_ns(totals: MatchTotals) -> float:
    return totals.per_step("in_steps_ns") - totals.per_step("hidden_ns")


def _fix_exposed_all_reduce(totals: MatchTotals) -> Evidence | None:
    """The size of buckets changes nothing for tensors that are sent one by one."""
    largest_bytes = totals.figures["largest_bytes"]
    many = MANY_SMALL if largest_bytes else MANY_UNKNOWN
    if totals.per_step("buckets") < many or largest_bytes > FIRST_BUCKET_BYTES:
        return None
    return Evidence(
        "Send {buckets:,} tensors as a few: wrap the model in DistributedDataParallel, or flatten all gradients into "
        "one tensor before dist.all_reduce.",
        {"buckets": round(totals.per_step("buckets"))},
    )


@rule(
    "RL-N01",
    ClaimOrder.GRADIENT_TRANSFER,
    Numerics.REASSOCIATION,
    Grade.DOCUMENTED,
    fix=_fix_exposed_all_reduce,
    least_share=LEAST_SHARE,
    applies_to_plans=True,
)
@says(
    "Gradient all-reduces, {buckets:,} per step, are exposed for {exposed_ns} of each {step_ns} "
    "step: nothing is computed meanwhile.",
    exposed_ns=per_step("in_steps_ns"),
)
@says(
    "The smallest is {smallest_bytes}, the largest {largest_bytes}.",
    when="largest_bytes",
    smallest_bytes=total("smallest_bytes"),
    largest_bytes=total("largest_bytes"),
)
@says(
    "No more can be hidden than is computed in a step: {left_ns} of that would remain.",
    when=lambda totals: _left_ns(totals) > LEAST_SHARE * totals.step_ns,
    left_ns=value(_left_ns),
)
@says(
    "{last_share} of that is in the last all-reduce of a backward pass, when no compute is left to hide it.",
    when=lambda totals: totals.figures["last_ns"] / max(totals.figures["exposed_ns"], 1) >= MOSTLY_LAST,
    last_share=ratio("last_ns", "exposed_ns"),
)
@adds(comm.untold)
def exposed_all_reduce(diagnosis: Diagnosis) -> JobMatch | None:
    """The all-reduces of DDP are not hidden behind the backward pass.

    Exchanges of unknown kind count with those that are known: else the bound would be too low.
    """
    chosen = [buckets(rank) for rank in diagnosis.ranks]
    unknown = [comm.unknown_exchanges(rank) & mask.any() for rank, mask in zip(diagnosis.ranks, chosen, strict=True)]
    claimed = [known | other for known, other in zip(chosen, unknown, strict=True)]
    if not comm.matter(diagnosis, claimed, LEAST_SHARE):
        return None
    sizes, transfers = _sizes(diagnosis.ranks, chosen), comm.transfer_of(diagnosis, claimed)
    small = bool(sizes) and sum(sizes) < FIRST_BUCKET_BYTES * len(sizes)
    count = sum(int(comm.begun_in_steps(*of_rank).sum()) for of_rank in zip(diagnosis.ranks, chosen, strict=True))
    if _on_cpu(diagnosis) and not (small and count >= MANY_ON_CPU * diagnosis.rank_steps):
        return None
    claims, beside = _gained(diagnosis, claimed, transfers, small=small)
    if not small and _sends_too_much(diagnosis, chosen):
        claims = [_behind_backward(*of_rank) for of_rank in zip(diagnosis.ranks, chosen, claims, strict=True)]
    last = [_last_of_pass(rank, mask) for rank, mask in zip(diagnosis.ranks, chosen, strict=True)]
    return JobMatch(
        claims,
        beside,
        buckets=count,
        smallest_bytes=min(sizes, default=0),
        largest_bytes=max(sizes, default=0),
        exposed_ns=sum(time.length_ns for time in transfers),
        in_steps_ns=comm.in_steps_ns(diagnosis, transfers),
        hidden_ns=comm.in_steps_ns(diagnosis, claims),
        last_ns=sum(time.length_ns for time in comm.transfer_of(diagnosis, last)),
        unknown_ns=comm.in_steps_ns(diagnosis, comm.transfer_of(diagnosis, unknown)),
        **comm.untold_figures(diagnosis),
    )


def _on_cpu(diagnosis: Diagnosis) -> bool:
    """There the cores that compute also move the bytes: hiding one behind the other gains nothing, fewer calls do."""
    return all(rank.facts.device == "cpu" for rank in diagnosis.ranks)


def _gained(
    diagnosis: Diagnosis, chosen: Sequence[Mask], transfers: Sequence[Intervals], *, small: bool
) -> tuple[list[Intervals], list[Intervals]]:
    """The gain of hiding; of small buckets all, as larger ones save what each exchange costs by itself."""
    if not small:
        return [comm.hideable(rank, time) for rank, time in zip(diagnosis.ranks, transfers, strict=True)], []
    ranks = zip(diagnosis.ranks, chosen, comm.open_on_cpu(diagnosis, chosen), strict=True)
    return list(transfers), [comm.time_of(rank, mask) | open_time for rank, mask, open_time in ranks]


def _sends_too_much(diagnosis: Diagnosis, chosen: Sequence[Mask]) -> bool:
    """Gradients are sent in fp32 though the job computes in less: RL-N05 is the cause if time runs out."""
    are_wide = [
        bool(comm.exchanges_where(rank, lambda series: series.dtype in comm.FP32)[mask].all())
        for rank, mask in zip(diagnosis.ranks, chosen, strict=True)
    ]
    return all(are_wide) and computes_narrow(diagnosis)


def _behind_backward(rank: Digest, chosen: Mask, time: Intervals) -> Intervals:
    """The part of this exposed time that the backward pass could still hide: what it computes while nothing is sent.

    Where buckets follow each other from the first to the last, no other order hides more of them.
    """
    if not rank.phases or not time.length_ns:
        return time
    sums = np.array(rank.phases).reshape(len(PHASES), len(KINDS))
    spare_ns = int(sums[PHASES.index(Phase.BACKWARD), KINDS.index(PhaseKind.DEVICE)])
    spare_ns -= int(rank.exchanges.hidden_ns[comm.begun_in_steps(rank, chosen)].sum())
    return comm.last_part(time, min(max(spare_ns, 0) / time.length_ns, 1.0))


def buckets(rank: Digest) -> Mask:
    """All-reduces of gradients; where these are scattered or parameters gathered, it is another scheme than DDP's.

    Those of passes before the last one need not be hidden, but left out (RL-N02).
    """
    chosen = comm.gradient_exchanges(rank)
    reduced = comm.exchanges_where(rank, lambda series: series.collective == "all_reduce")
    is_ddp = reduced[chosen].all() and not parameter_gathers(rank).any()
    return chosen & ~exchanged_early(rank, chosen) if is_ddp else np.zeros_like(chosen)


def _sizes(ranks: Sequence[Digest], chosen: Sequence[Mask]) -> list[int]:
    """Sizes of all kinds of buckets, as far as they are known."""
    used = {
        rank.series[number].payload_bytes
        for rank, mask in zip(ranks, chosen, strict=True)
        for number in np.unique(rank.exchanges.series[mask]).tolist()
    }
    return sorted(used - {0})


def _last_of_pass(rank: Digest, chosen: Mask) -> Mask:
    """The last of the chosen exchanges in each backward pass."""
    rows = np.flatnonzero(chosen)
    step = np.searchsorted(rank.ledger.start_ns, rank.exchanges.start_ns[rows], side="right")
    passed = np.stack([step, rank.exchanges.backward[rows]])
    last = np.zeros_like(chosen)
    last[rows[np.append((np.diff(passed) != 0).any(axis=0), True)[: len(rows)]]] = True
    return last


@rule("RL-N03", ClaimOrder.DDP_COPIES, Numerics.BITWISE, Grade.DOCUMENTED)
@says(
    "DDP copies gradients one by one: {into:,} times per step into a bucket and {back:,} times back. "
    "These copies and the gaps while they are launched take {copying_ns} of each {step_ns} step.",
    copying_ns=alone,
)
def bucket_copies(analysis: RankAnalysis) -> RuleMatch | None:
    """DDP copies every gradient into a bucket and back.

    Copies back into gradients can all be saved; of those into buckets most, but only where there are both.
    """
    spans = analysis.timeline.spans
    operators = spans.rows_of(Kind.OPERATOR)
    back, into = np.zeros(len(spans), bool), np.zeros(len(spans), bool)
    back[operators[matching(analysis.timeline, operators, schema.copies_from_bucket)]] = True
    into[operators[matching(analysis.timeline, operators, schema.copies_into_bucket)]] = True
    if not analysis.on_gpu or not back.any():
        return None
    copies = analysis.launched_under(back | into)
    return RuleMatch(
        analysis.busy_with(copies) | analysis.gaps_before(copies),
        back=len(analysis.launched_under(back)),
        into=len(analysis.launched_under(into)),
        copying_ns=analysis.busy_with(copies).length_ns,
    )


CPU_SHARE = 0.03  # of the step, on a CPU: what DDP does there without any buffers is in it too


def broadcasts(rank: Digest) -> Mask:
    """Those outside of backward passes."""
    forward: Mask = rank.exchanges.backward == FORWARD
    return forward & comm.exchanges_where(rank, lambda series: series.collective == "broadcast")


@rule("RL-N04", ClaimOrder.DDP_COPIES, Numerics.SEMANTICS, Grade.DOCUMENTED, ends=broadcasts)
@says(
    "Before every forward pass DDP broadcasts the buffers and copies them one by one, {copies:,} "
    "copies per step. The copies and the gaps while they are launched take {copying_ns} of each "
    "{step_ns} step."
)
@says(
    "The broadcasts themselves are exposed for another {broadcast_ns} of each step, including waiting for other ranks.",
    when="broadcast_ns",
)
def buffer_broadcast(analysis: RankAnalysis) -> RuleMatch | None:
    """DDP broadcasts the buffers of the model before every forward pass."""
    if not analysis.on_gpu:
        return _match_on_cpu(analysis)
    copies = _buffer_copies(analysis)
    if not len(copies):
        return None
    claim = analysis.busy_with(copies) | analysis.gaps_before(copies)
    return RuleMatch(
        claim,
        copies=len(copies),
        copying_ns=(claim & analysis.in_steps).length_ns,
        broadcast_ns=_exposed_broadcast_ns(analysis),
    )


def _match_on_cpu(analysis: RankAnalysis) -> RuleMatch | None:
    """Match DDP's forward before the first operator of the model, where it broadcasts: it joins buffers too."""
    spans, activity = analysis.timeline.spans, analysis.activity
    forward = _forward_regions(analysis)
    begun_ns, until_ns = _broadcasting(analysis, forward)
    chosen = begun_ns < np.minimum(until_ns, spans.end_ns[forward])
    before_model = Intervals.union_of(spans.start_ns[forward[chosen]], until_ns[chosen])
    before_ns = (before_model & analysis.in_steps).length_ns
    if before_ns < CPU_SHARE * analysis.steps_ns or not before_ns:
        return None
    operators = np.concatenate([activity.copies.row, activity.compute.row])
    return RuleMatch(
        before_model,
        copies=before_model.contains(spans.start_ns[np.unique(operators)]).sum(),
        copying_ns=((before_model & analysis.in_steps) - activity.communicating).length_ns,
        broadcast_ns=(before_model & activity.communicating).length_ns,
    )


def _forward_regions(analysis: RankAnalysis) -> I64:
    spans = analysis.timeline.spans
    rows = spans.rows_of(Kind.ANNOTATION)
    return rows[matching(analysis.timeline, rows, schema.is_ddp_forward)]


def _buffer_copies(analysis: RankAnalysis) -> I64:
    """Copies that DDP's forward makes itself, after a broadcast and before the first operator of the model."""
    work, spans = analysis.timeline.device_work, analysis.timeline.spans
    forward = _forward_regions(analysis)
    candidates = (spans.kind[work.row] == Kind.COPY) & np.isin(work.annotation, forward) & (work.operator != NONE)
    rows, operator = work.row[candidates].astype(np.int64), work.operator[candidates].astype(np.int64)
    parent = spans.parent[operator]
    own: Mask = matching(analysis.timeline, operator, schema.is_copying_operator)
    own &= ~matching(analysis.timeline, rows, schema.is_copy_with_host)
    own &= (parent == NONE) | (spans.kind[parent] != Kind.OPERATOR)
    begun_ns, until_ns = _broadcasting(analysis, work.annotation[candidates].astype(np.int64))
    at_ns = spans.start_ns[operator]
    copies: I64 = rows[own & (begun_ns <= at_ns) & (at_ns < until_ns)]
    return copies


def _broadcasting(analysis: RankAnalysis, forward: I64) -> tuple[I64, I64]:
    """For each of these regions its first broadcast, and the first operator that autograd numbered after its last."""
    spans, operators = analysis.timeline.spans, analysis.timeline.operators
    rows = spans.rows_of(Kind.ANNOTATION, Kind.COMMUNICATION)  # of gloo, which runs on the host, they are the exchange
    broadcast_ns = np.sort(spans.start_ns[rows[matching(analysis.timeline, rows, schema.is_broadcast_region)]])
    model_ns = np.sort(spans.start_ns[operators.row[operators.sequence >= 0]])
    never = np.iinfo(np.int64).max
    first = np.searchsorted(broadcast_ns, spans.start_ns[forward])
    last = np.maximum(np.searchsorted(broadcast_ns, spans.end_ns[forward]) - 1, first)
    starts_ns = np.append(broadcast_ns, never)
    return starts_ns[first], np.append(model_ns, never)[np.searchsorted(model_ns, starts_ns[last])]


def _exposed_broadcast_ns(analysis: RankAnalysis) -> int:
    """Exposed time of broadcasts that were launched in DDP's forward."""
    work, spans, owned = analysis.timeline.device_work, analysis.timeline.spans, analysis.activity.communication
    launch = work.launch[np.searchsorted(work.row, owned.row)]
    forward = _forward_regions(analysis)
    inside = Intervals.union_of(spans.start_ns[forward], spans.end_ns[forward]).contains(spans.start_ns[launch])
    chosen = inside & (launch != NONE) & matching(analysis.timeline, owned.row, schema.is_broadcast)
    return (owned.where(chosen) & analysis.activity.communicating).length_ns


def _fix_unused_parameter_search(totals: MatchTotals) -> Evidence:
    return Evidence("Leave out find_unused_parameters=True: DistributedDataParallel(..., find_unused_parameters=False)")


@rule(
    "RL-N20",
    ClaimOrder.DDP_COPIES,
    Numerics.BITWISE,
    Grade.DOCUMENTED,
    fix=_fix_unused_parameter_search,
    least_share=0.0,
)
@says(
    "DDP searches the graph for unused parameters {searches:,} x per step, and copies all outputs of the model for "
    "that, {copying_ns} of each {step_ns} step.",
    searches=value(lambda totals: max(round(totals.per_step("searches")), 1), "searches"),
)
@says(
    "Which parameters are used is all-reduced in each step, for another {reducing_ns}, which is not in the bound.",
    when="reducing_ns",
)
@says("The search found no unused parameter.", when="is_told")
@says("Whether it finds any was not recorded: if some parameters are unused, the search is needed.", unless="is_told")
def unused_parameter_search(analysis: RankAnalysis) -> RuleMatch | None:
    """DDP searches for unused parameters in every step, and finds none.

    The search, the copies of all outputs that it needs, and what these cost in the backward pass.
    """
    spans, facts = analysis.timeline.spans, analysis.timeline.evidence.facts
    searches = _in_steps(analysis, analysis.rows_named(schema.is_unused_search, Kind.OPERATOR, Kind.ANNOTATION))
    unused_bytes = [ddp.unused_bytes for ddp in facts.ddp if ddp.unused_bytes is not None]
    if not len(searches) or any(unused_bytes):
        return None
    copies = _in_steps(analysis, analysis.rows_named(schema.is_output_copy, Kind.OPERATOR))
    rows = np.concatenate([searches, copies])
    time = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    claim = analysis.idle_after(time) | analysis.busy_with(launched_by(analysis, copies))
    return RuleMatch(
        claim,
        searches=len(searches),
        copying_ns=spans.dur_ns[copies].sum(),
        reducing_ns=_map_ns(analysis),
        is_told=bool(unused_bytes),
    )


def _in_steps(analysis: RankAnalysis, rows: I64) -> I64:
    return rows[analysis.in_steps.contains(analysis.timeline.spans.start_ns[rows])]


def _map_ns(analysis: RankAnalysis) -> int:
    """Time of the all-reduces of whole numbers inside steps: which parameters are used is one number for each."""
    timeline = analysis.timeline
    communications = timeline.communications
    known = [
        timeline.text(int(collective)) == "all_reduce" and schema.is_whole_number(timeline.text(int(dtype)))
        for collective, dtype in zip(communications.collective, communications.dtype, strict=True)
    ]
    rows = _in_steps(analysis, communications.row[np.array(known, bool)].astype(np.int64))
    return int(timeline.spans.dur_ns[rows].sum())
