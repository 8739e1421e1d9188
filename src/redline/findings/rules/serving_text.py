"""Generation of text that computes what it has computed, or what is masked."""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from redline.findings.evidence import Grade
from redline.findings.model_calls import (
    ModelCall,
    heaviest_layers,
    is_usual,
    runs_backward,
    shapes_of_call,
    steady_growth,
    steps_of_calls,
)
from redline.findings.operator_cost import argument_shapes, argument_texts, cost_of, operators_in_steps, outermost
from redline.findings.rule import ClaimOrder, RuleMatch, rule, says
from redline.ledger.rank.disjoint_work import Owned
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.arguments import Shape
from redline.roofline.sizes import list_shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.trace import schema
from redline.values import dataclass

LEAST_CALLS = 3  # of a growing model: two lengths in a row may be chance
LEAST_TOKENS = 4  # in the shortest of them: the first tokens of a text are few in any case
HEAVIEST = 2  # of the shapes of weights: the last layer of a small model with many words, and what comes next


@rule("RL-C16", ClaimOrder.AVOIDABLE_KERNELS, Numerics.REASSOCIATION, Grade.DOCUMENTED, least_share=0.05)
@says(
    "Successive calls of the model compute {first} to {last} tokens, each one more than the call before it: "
    "every token is computed from the whole text."
)
def growing_prefix(analysis: RankAnalysis) -> RuleMatch | None:
    """Generation without a cache of keys and values: each token computes the whole text again.

    From call to call one token more of each text; a batch of texts grows by its size.
    """
    layers = None if runs_backward(analysis) else _growing(analysis)
    if layers is None:
        return None
    growth = steady_growth(layers, LEAST_CALLS)
    first, last = int(layers.min()) // growth, int(layers.max()) // growth
    claim = _all_but_the_last_token(analysis, analysis.activity.compute, last)
    claim |= _all_but_the_last_token(analysis, analysis.activity.copies, last)
    return RuleMatch(claim, texts=growth, first=f"{first:,}", last=f"{last:,}")


def _growing(analysis: RankAnalysis) -> I64 | None:
    """The heaviest layers that compute the whole text; the last layer often computes the last token alone."""
    for layers in heaviest_layers(analysis)[:HEAVIEST]:
        growth = steady_growth(layers, LEAST_CALLS)
        if growth and layers.min() >= LEAST_TOKENS * growth:
            return layers
    return None


def _all_but_the_last_token(analysis: RankAnalysis, pieces: Owned, tokens: int) -> Intervals:
    """The last part of each piece of device work: with a cache only one of its tokens is computed."""
    kept_ns = np.ceil(pieces.dur_ns / tokens).astype(np.int64)
    return Intervals.union_of(pieces.start_ns + kept_ns, pieces.end_ns) & analysis.in_steps


LEAST_LENGTHS = 3  # that the cache had in the window
LONG = 8  # tokens in the cache for each new one: appending to a short one costs little


@rule("RL-C20", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.03)
@says(
    "{copies:,} calls of torch.cat per step append to tensors of up to {length} positions, and copy all of them: "
    "{copying_ns} of each {step_ns} step."
)
def cache_grown_by_cat(analysis: RankAnalysis) -> RuleMatch | None:
    """Torch.cat makes a cache or another tensor longer again and again, and copies all of it each time."""
    rows, length, new = _appended(analysis)
    lengths = np.unique(length)
    if len(lengths) < LEAST_LENGTHS or (np.diff(lengths) != new.min()).any():
        return None
    return RuleMatch(
        cost_of(analysis, rows),
        copies=len(rows),
        copying_ns=analysis.timeline.spans.dur_ns[rows].sum(),
        length=f"{int(lengths[-1]):,}",
    )


def _appended(analysis: RankAnalysis) -> tuple[I64, I64, I64]:
    """Calls of torch.cat that put few positions behind many, how many there were before, and how many were added."""
    timeline = analysis.timeline
    rows = operators_in_steps(analysis)
    rows = rows[matching(timeline, rows, schema.is_cat)]
    texts, _, _ = argument_texts(timeline, rows)
    length, new = np.array([_lengths(timeline.text(text)) for text in texts.tolist()], np.int64).reshape(-1, 2).T
    return rows[length > 0], length[length > 0], new[length > 0]


def _lengths(text: str) -> tuple[int, int]:
    """Positions of two tensors that differ in one dimension; 0 where the second is not far shorter."""
    shapes = list_shapes_of(text)
    if len(shapes) != 2 or len(shapes[0]) != len(shapes[1]) or len(shapes[0]) < 2:
        return 0, 0
    differing = [(cached, new) for cached, new in zip(*shapes, strict=True) if cached != new]
    if len(differing) != 1 or differing[0][0] < LONG * differing[0][1]:
        return 0, 0
    return differing[0]


WIDE = 4  # times as many logits as inputs: the head of a language model, and no layer inside it


@rule("RL-C21", ClaimOrder.MEMORY_TRAFFIC, Numerics.REASSOCIATION, Grade.DOCUMENTED, least_share=0.03)
@says(
    "{heads:,} products per step compute {words} logits at all {length} positions, and only some positions are "
    "read: {heads_ns} of each {step_ns} step."
)
def logits_of_all_positions(analysis: RankAnalysis) -> RuleMatch | None:
    """Inference computes the logits of all positions and reads only the last one."""
    if runs_backward(analysis):
        return None
    heads = _heads(analysis)
    if not heads:
        return None
    rows = np.array(sorted(heads), np.int64)
    _, length, words = max(heads.values(), key=lambda shape: shape[1] * shape[2])
    return RuleMatch(
        cost_of(analysis, rows),
        heads=len(rows),
        heads_ns=analysis.timeline.spans.dur_ns[rows].sum(),
        length=f"{length:,}",
        words=f"{words:,}",
    )


def _heads(analysis: RankAnalysis) -> dict[int, Shape]:
    """Products whose result nothing reads but one selection of positions, with the shape of their results."""
    rows = outermost(analysis, operators_in_steps(analysis))
    products = np.flatnonzero(matching(analysis.timeline, rows, schema.is_linear))
    results = list(map(_result, argument_shapes(analysis.timeline, rows[products])))
    if not any(results):
        return {}
    shapes = argument_shapes(analysis.timeline, rows)
    is_selection = matching(analysis.timeline, rows, schema.is_selection).tolist()
    heads: dict[int, Shape] = {}
    for (place, following), result in zip(pairwise([*products.tolist(), len(rows)]), results, strict=True):
        readers = [later for later in range(place + 1, following) if result and result in shapes[later]]
        if len(readers) == 1 and is_selection[readers[0]]:
            heads[int(rows[place])] = result
    return heads


def _result(shapes: tuple[Shape, ...]) -> Shape:
    """[batch, length, words] of a product with far more results than inputs; () of any other."""
    if len(shapes) < 2 or len(shapes[0]) != 3 or len(shapes[1]) != 2:
        return ()
    (batch, length, width), words = shapes[0], shapes[1][0]
    return (batch, length, words) if length > 1 and words >= WIDE * width else ()


MOST_USED = 0.5  # of the positions
_LAST_SIZE = re.compile(r"(\d+)\]$")


@dataclass(frozen=True, kw_only=True)
class MaskedCall:
    """A call most of whose positions are masked."""

    call: ModelCall
    length: int
    used: int  # by the longest text
    is_prompt: bool  # tokens are padded, not the cache alone


@rule("RL-C29", ClaimOrder.AVOIDABLE_KERNELS, Numerics.REASSOCIATION, Grade.DOCUMENTED, least_share=0.05)
@says(
    "Prompts are padded to {length} positions, of which the longest text has {used}: the model computes padding.",
    when="prompts",
)
@says(
    "The cache has {length} positions, of which the longest text has {used}: attention reads all of them for "
    "each token.",
    unless="prompts",
)
def masked_positions(analysis: RankAnalysis) -> RuleMatch | None:
    """Most positions of a call are masked: a static cache or padding is far longer than the text.

    On a CPU: masks of a GPU are not read.
    """
    steps = [_masked(analysis, step) for step in steps_of_calls(analysis)]
    calls = [masked for step in steps for masked in step]
    if analysis.on_gpu or not is_usual(sum(map(bool, steps)), len(steps)):
        return None
    longest = max(calls, key=lambda masked: masked.length - masked.used)
    return RuleMatch(
        _without_masked(analysis, calls),
        prompts=sum(masked.is_prompt for masked in calls),
        length=f"{longest.length:,}",
        used=f"{longest.used:,}",
    )


def _masked(analysis: RankAnalysis, step: Sequence[ModelCall]) -> list[MaskedCall]:
    recorded = analysis.timeline.evidence.calls
    found = []
    for call in step:
        shapes = shapes_of_call(analysis, call)
        for number, shape in zip(call.inputs, shapes, strict=True):
            used, last = recorded.used[number] if recorded.used else -1, _LAST_SIZE.search(shape)
            length = int(last[1]) if last else 0
            if 0 < used <= MOST_USED * length:
                is_prompt = sum(other.endswith(f",{length}]") for other in shapes) > 1
                found.append(MaskedCall(call=call, length=length, used=used, is_prompt=is_prompt))
                break
    return found


def _without_masked(analysis: RankAnalysis, calls: Sequence[MaskedCall]) -> Intervals:
    """The last part of operators that compute masked positions: attention between them grows with their square."""
    spans = analysis.timeline.spans
    rows = outermost(analysis, operators_in_steps(analysis))
    shapes = argument_shapes(analysis.timeline, rows)
    time = Intervals.empty()
    for masked in calls:
        first, last = np.searchsorted(spans.start_ns[rows], [masked.call.start_ns, masked.call.end_ns]).tolist()
        is_wide = [  # it reads all positions of a cache, or a mask of them
            masked.is_prompt or any(len(shape) == 4 and masked.length in shape[2:] for shape in of_row)
            for of_row in shapes[first:last]
        ]
        share = (masked.used / masked.length) ** (2 if masked.is_prompt else 1)
        time |= _last_parts(analysis, rows[first:last][np.array(is_wide, bool)], 1 - share)
    return time & analysis.in_steps


def _last_parts(analysis: RankAnalysis, rows: I64, share: float) -> Intervals:
    spans = analysis.timeline.spans
    end_ns = spans.end_ns[rows]
    return Intervals.union_of(end_ns - np.floor(spans.dur_ns[rows] * share).astype(np.int64), end_ns)
