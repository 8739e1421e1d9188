"""RL-C16: generation without a cache of keys and values: each token computes the whole text again."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.model_calls import LayerCalls, heaviest_layers, runs_backward, steady_growth
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.disjoint_work import Owned
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals

LEAST_CALLS = 3  # of a growing model: two lengths in a row may be chance
LEAST_TOKENS = 4  # in the shortest of them: the first tokens of a text are few in any case
HEAVIEST = 2  # of the shapes of weights: the last layer of a small model with many words, and what comes next
STEP_SHARE = 0.05  # of the step


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """From call to call one token more of each text; a batch of texts grows by its size."""
    layers = None if runs_backward(analysis) else _growing(analysis)
    if layers is None:
        return None
    growth = steady_growth(layers.rows, LEAST_CALLS)
    first, last = int(layers.rows.min()) // growth, int(layers.rows.max()) // growth
    claim = _all_but_the_last_token(analysis, analysis.activity.compute, last)
    claim |= _all_but_the_last_token(analysis, analysis.activity.copies, last)
    return RuleMatch(claim=claim, figures={"texts": float(growth)}, names={"first": f"{first:,}", "last": f"{last:,}"})


def _growing(analysis: RankAnalysis) -> LayerCalls | None:
    """The heaviest layers that compute the whole text; the last layer often computes the last token alone."""
    for layers in heaviest_layers(analysis)[:HEAVIEST]:
        growth = steady_growth(layers.rows, LEAST_CALLS)
        if growth and layers.rows.min() >= LEAST_TOKENS * growth:
            return layers
    return None


def _all_but_the_last_token(analysis: RankAnalysis, pieces: Owned, tokens: int) -> Intervals:
    """The last part of each piece of device work: with a cache only one of its tokens is computed."""
    kept_ns = np.ceil(pieces.dur_ns / tokens).astype(np.int64)
    return Intervals.union_of(pieces.start_ns + kept_ns, pieces.end_ns) & analysis.in_steps


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "Successive calls of the model compute {first} to {last} tokens, each one more than the call before it: "
        "every token is computed from the whole text.",
        {"first": totals.names["first"], "last": totals.names["last"]},
    )


RULE = Rule(
    code="RL-C16",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("texts",),
    names=("first", "last"),
    least_share=STEP_SHARE,
)
