"""Copies, conversions of layout and small operators in a row, which only move bytes."""

import numpy as np

from redline.findings.callers import caller_of, site_of
from redline.findings.evidence import Grade
from redline.findings.operator_cost import backward_of, cost_of, marked, read_again
from redline.findings.rule import ClaimOrder, RuleMatch, adds, ratio, rule, says
from redline.findings.savings import beyond, in_families, savings
from redline.findings.tensor_copies import layout_conversions, mixed_layouts, plain_copies
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.kernels import Floats
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import elements_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema


# at least 0.03 of the step: some copies are needed, and a few cost little
@rule("RL-C12", ClaimOrder.AVOIDABLE_KERNELS, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.03)
@says(
    "{copies:,} calls per step, most of them {operator}, copy a tensor without changing its type or layout; they "
    "take {copying_ns} of each {step_ns} step."
)
@adds(site_of)
def needless_copies(analysis: RankAnalysis) -> RuleMatch | None:
    """The program copies tensors as they are, with clone, to or contiguous, before it uses them."""
    rows = plain_copies(analysis)
    if not len(rows):
        return None
    copying = cost_of(analysis, rows)
    names = caller_of(analysis, rows, analysis.timeline.spans.dur_ns[rows])
    claim = copying | read_again(analysis, rows) | cost_of(analysis, np.unique(backward_of(analysis, rows)))
    return RuleMatch(claim, copies=len(rows), copying_ns=copying.length_ns, **names)


CONVERTING_SHARE = 0.03  # of the busy time of the device


@rule("RL-C10", ClaimOrder.AVOIDABLE_KERNELS, Numerics.REASSOCIATION, Grade.MEASURED, applies_to_plans=True)
@says(
    "{conversions:,} kernels per step convert between NCHW and NHWC, {converting_share} of the kernel time.",
    converting_share=ratio("converting_ns", "kernel_ns"),
)
def layout_conversion(analysis: RankAnalysis) -> RuleMatch | None:
    """Convolutions want their tensors in another memory layout, so every one is converted there and back."""
    copies = layout_conversions(analysis)
    converting, conversions = _conversions(analysis, copies)
    busy_ns = int(analysis.activity.compute.dur_ns.sum()) + (
        0 if analysis.on_gpu else analysis.activity.copying.length_ns
    )
    if converting.length_ns <= CONVERTING_SHARE * busy_ns:
        return None
    claim = (
        converting
        | cost_of(analysis, copies)
        | read_again(analysis, copies)
        | cost_of(analysis, mixed_layouts(analysis))
    )
    return RuleMatch(
        claim if len(copies) else converting,
        conversions=conversions,
        converting_ns=converting.length_ns,
        kernel_ns=busy_ns,
    )


def _conversions(analysis: RankAnalysis, copies: I64) -> tuple[Intervals, int]:
    """Device time of conversions, and how many they are: kernels of libraries, and copies that PyTorch makes."""
    if not analysis.on_gpu:
        spans = analysis.timeline.spans
        return Intervals.union_of(spans.start_ns[copies], spans.end_ns[copies]), len(copies)
    rows = analysis.timeline.spans.rows_of(Kind.KERNEL)
    rows = rows[matching(analysis.timeline, rows, schema.is_layout_conversion)]
    if len(copies):
        rows = np.union1d(rows, analysis.launched_under(marked(analysis, copies)))
    return analysis.busy_with(rows), len(rows)


CHAINS_SHARE = 0.2  # of the kernel time
FUSABLE = ("elementwise", "reduction", "norm", "softmax", "copy", "loss")
_SHRINKING = ("reduction", "norm", "softmax", "loss")  # what they write may be smaller than all that they read


@rule("RL-B01", ClaimOrder.ELEMENTWISE, Numerics.REASSOCIATION, Grade.MEASURED, least_share=0.03, applies_to_plans=True)
@says(
    "{chained:,} elementwise, normalisation, reduction and copy kernels per step run back to back in "
    "{chains:,} chains; they take {chain_ns}, {chain_share} of the kernel time.",
    chain_share=ratio("chain_ns", "kernel_ns"),
)
def elementwise_chains(analysis: RankAnalysis) -> RuleMatch | None:
    """Chains of small operators, each of which reads from memory what the one before it wrote there."""
    if not analysis.on_gpu:
        return None
    compute = analysis.activity.compute
    kernel_ns = int(compute.dur_ns.sum())
    fusable = _fusable(analysis)
    if compute.dur_ns[fusable].sum() <= CHAINS_SHARE * kernel_ns:
        return None
    chain = chains_of(analysis, fusable)
    chained = chain != NONE
    chain_ns = int(compute.dur_ns[chained].sum())
    if chain_ns <= CHAINS_SHARE * kernel_ns:
        return None
    return RuleMatch(
        savings(analysis, beyond(analysis, chain, _kept_ns(analysis, chain))),
        chains=chain.max() + 1,
        chained=chained.sum(),
        chain_ns=chain_ns,
        kernel_ns=kernel_ns,
    )


def _fusable(analysis: RankAnalysis) -> Mask:
    """Pieces of compute that a compiler fuses with their neighbours.

    Optimizers have fused kernels of their own, and copies of tensors as they are can be left out (RL-C12).
    """
    timeline, kernels, compute = analysis.timeline, analysis.kernels, analysis.activity.compute
    by_work: Mask = np.append(in_families(kernels.calls, FUSABLE), False)[kernels.call_of]
    unknown = (kernels.call_of == NONE) & matching(timeline, compute.row, schema.is_eager_kernel)
    regions = np.zeros(len(timeline.spans), bool)
    rows = timeline.spans.rows_of(Kind.ANNOTATION)
    regions[rows[matching(timeline, rows, schema.is_optimizer_step)]] = True
    regions[plain_copies(analysis)] = True
    fusable: Mask = (by_work | unknown) & ~np.isin(compute.row, analysis.launched_under(regions))
    return fusable


def chains_of(analysis: RankAnalysis, fusable: Mask) -> I64:
    """For each piece of compute the chain that it is in: neighbours on a stream that work on tensors of one size."""
    compute = analysis.activity.compute
    order = np.lexsort((compute.start_ns, analysis.timeline.spans.lane[compute.row]))
    lane, call = analysis.timeline.spans.lane[compute.row[order]], analysis.kernels.call_of[order]
    next_to = np.flatnonzero(fusable[order[1:]] & fusable[order[:-1]] & (lane[1:] == lane[:-1]))
    linked = np.zeros(len(order), bool)
    linked[next_to + 1] = _related(analysis, order[next_to], order[next_to + 1])
    number = np.cumsum(~linked) - 1
    is_next = np.append(True, (call[1:] != call[:-1]) | (call[1:] == NONE))  # not one more kernel of the same call
    longer = np.bincount(number, weights=is_next[: len(order)], minlength=1)[number] > 1
    _, number = np.unique(number[longer], return_inverse=True)
    chain = np.full(len(order), NONE, np.int64)
    chain[order[longer]] = number
    return chain


def _related(analysis: RankAnalysis, before: I64, after: I64) -> Mask:
    """Each piece may read what the piece before it wrote.

    Where sizes are not known it may, unless both are the same kernel: that is how a loop over tensors looks.
    """
    timeline, calls, call_of = analysis.timeline, analysis.kernels.calls, analysis.kernels.call_of
    operators, name = timeline.operators, timeline.spans.name[analysis.activity.compute.row]
    shapes = np.append(operators.shapes[np.searchsorted(operators.row, calls.row)], NONE)[call_of]
    shrinks = np.append(in_families(calls, _SHRINKING), True)[call_of]
    pairs, which = distinct(shapes[before], shapes[after], shrinks[before])
    sizes = {text: elements_of(timeline.text(text)) for text in np.unique(pairs[:2]).tolist()}
    alike = [_alike(sizes[first], sizes[second], shrinks=bool(by)) for first, second, by in pairs.T.tolist()]
    unknown = (shapes[before] == NONE) | (shapes[after] == NONE)
    same_call = (call_of[before] == call_of[after]) & (call_of[after] != NONE)
    related: Mask = np.where(unknown, name[before] != name[after], np.array(alike, bool)[which]) | same_call
    return related


def _alike(before: frozenset[int], after: frozenset[int], *, shrinks: bool) -> bool:
    return bool(before & after) or (shrinks and max(after, default=0) < max(before, default=0))


def _kept_ns(analysis: RankAnalysis, chain: I64) -> Floats:
    """The least time of one kernel instead of a chain: the traffic of its largest member, else that one's time."""
    kernels, compute = analysis.kernels, analysis.activity.compute
    traffic_ns = np.append(np.where(kernels.calls.has_roof, kernels.calls.memory_ns, np.nan), np.nan)[kernels.call_of]
    kept_ns = np.zeros(chain.max() + 1)
    chained = np.flatnonzero(chain != NONE)
    np.maximum.at(kept_ns, chain[chained], np.where(np.isnan(traffic_ns), compute.dur_ns, traffic_ns)[chained])
    return kept_ns
