"""RL-B01: chains of small operators, each of which reads from memory what the one before it wrote there."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.savings import beyond, in_families, savings
from redline.findings.tensor_copies import plain_copies
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.kernels import Floats
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import elements_of
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

KERNEL_SHARE = 0.2  # of the kernel time
FUSABLE = ("elementwise", "reduction", "norm", "softmax", "copy", "loss")
_SHRINKING = ("reduction", "norm", "softmax", "loss")  # what they write may be smaller than all that they read


def match(analysis: RankAnalysis) -> RuleMatch | None:
    if not analysis.on_gpu:
        return None
    compute = analysis.activity.compute
    kernel_ns = int(compute.dur_ns.sum())
    fusable = _fusable(analysis)
    if compute.dur_ns[fusable].sum() <= KERNEL_SHARE * kernel_ns:
        return None
    chain = chains_of(analysis, fusable)
    chained = chain != NONE
    chain_ns = int(compute.dur_ns[chained].sum())
    if chain_ns <= KERNEL_SHARE * kernel_ns:
        return None
    figures = {
        "chains": float(chain.max() + 1),
        "chained": float(chained.sum()),
        "chain_ns": float(chain_ns),
        "kernel_ns": float(kernel_ns),
    }
    return RuleMatch(claim=savings(analysis, beyond(analysis, chain, _kept_ns(analysis, chain))), figures=figures)


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
    """Whether each piece may read what the piece before it wrote.

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
    """What one kernel takes at least instead of a chain: the traffic of its largest member, else that one's time."""
    kernels, compute = analysis.kernels, analysis.activity.compute
    traffic_ns = np.append(np.where(kernels.calls.has_roof, kernels.calls.memory_ns, np.nan), np.nan)[kernels.call_of]
    kept_ns = np.zeros(chain.max() + 1)
    chained = np.flatnonzero(chain != NONE)
    np.maximum.at(kept_ns, chain[chained], np.where(np.isnan(traffic_ns), compute.dur_ns, traffic_ns)[chained])
    return kept_ns


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{chained:,} elementwise, normalisation, reduction and copy kernels per step run back to back in "
        "{chains:,} chains; they take {chain_ns}, {chain_share} of the kernel time.",
        {
            "chained": round(totals.per_step("chained")),
            "chains": round(totals.per_step("chains")),
            "chain_ns": totals.per_step("chain_ns"),
            "chain_share": totals.figures["chain_ns"] / max(totals.figures["kernel_ns"], 1),
        },
    )


RULE = Rule(
    code="RL-B01",
    claims=ClaimOrder.ELEMENTWISE,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    figures=("chained", "chains", "chain_ns", "kernel_ns"),
    least_share=0.03,
    applies_to_plans=True,
)
