"""Generation of images that calls models more often than it has to."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from redline.findings.evidence import Grade
from redline.findings.model_calls import (
    ModelCall,
    is_usual,
    model_of,
    shapes_of_call,
    steps_of_calls,
    tensors_of_call,
    time_of,
)
from redline.findings.rule import ClaimOrder, RuleMatch, rule, says, value
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.timeline import Kind
from redline.trace import schema


@rule("RL-C26", ClaimOrder.MOMENTS, Numerics.REASSOCIATION, Grade.DOCUMENTED, least_share=0.05)
@says(
    "{model} is called {calls:,} times in each {step_ns} step, with inputs of the same shapes, some of them the "
    "same: guidance runs in turns where one batch would do.",
    calls=value(lambda totals: round(totals.figures["calls"] / max(totals.ranks, 1)), "calls"),
)
def guidance_in_turns(analysis: RankAnalysis) -> RuleMatch | None:
    """A model is called several times in a step for the same input, as for guidance, where one batch would do."""
    steps = steps_of_calls(analysis)
    in_turns = [group for step in _told_apart(analysis, steps) for group in step]
    if not is_usual(len(in_turns), len(steps)):
        return None
    later = [call for group in in_turns for call in _later(group)]
    return RuleMatch(
        time_of(analysis, later),
        calls=np.median([len(group) for group in in_turns]),
        model=model_of(analysis, later[0]).kind,
    )


def _told_apart(analysis: RankAnalysis, steps: Sequence[Sequence[ModelCall]]) -> Iterator[list[list[ModelCall]]]:
    """Calls of one model in turns, by step: all share an input that is new in the step, and what they do not
    share comes in other steps as well, so that no call needs the result of another."""
    of_steps = [frozenset(chain.from_iterable(tensors_of_call(analysis, call) for call in step)) for step in steps]
    times = Counter(chain.from_iterable(of_steps))
    in_several = frozenset(tensor for tensor, number in times.items() if number > 1)
    for step in steps:
        groups = defaultdict(list)
        for call in step:
            groups[call.model, shapes_of_call(analysis, call)].append(call)
        yield [group for group in groups.values() if _is_in_turns(analysis, group, in_several)]


def _is_in_turns(analysis: RankAnalysis, group: Sequence[ModelCall], in_several: frozenset[int]) -> bool:
    inputs = [tensors_of_call(analysis, call) for call in group]
    shared, given = frozenset.intersection(*inputs), frozenset.union(*inputs)
    are_different = len(set(inputs)) == len(inputs) > 1
    return are_different and bool(shared - in_several) and given - shared <= in_several


def _later(group: Sequence[ModelCall]) -> list[ModelCall]:
    """All but the first; what follows the last one in its step is not in it, as far as calls take the same time."""
    longest_ns = max(call.end_ns - call.start_ns for call in group[:-1])
    return [replace(call, end_ns=min(call.end_ns, call.start_ns + longest_ns)) for call in group[1:]]


@rule("RL-C27", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.03)
@says(
    "{model} is called {calls:,} times per {step_ns} step with an input that it gets in other steps too "
    "({shape}): it computes the same again.",
    order="model calls shape step_ns",
    calls=value(lambda totals: max(round(totals.per_step("calls")), 1), "calls"),
)
def same_input_again(analysis: RankAnalysis) -> RuleMatch | None:
    """The same input goes through the same module again in each step, as a prompt through its text encoder.

    Beside a model whose inputs change: a loop over one batch, as in a benchmark, is no such thing.
    """
    steps = steps_of_calls(analysis)
    changing = _changing(steps)
    of_steps = [[call for call in step if call.model not in changing] for step in _again(analysis, steps)]
    if not changing or not is_usual(sum(map(bool, of_steps)), len(steps)):
        return None
    again = [call for step in of_steps for call in step]
    shape = next(shape for shape in shapes_of_call(analysis, again[0]) if shape)
    return RuleMatch(
        time_of(analysis, again, with_before=True),
        calls=len(again),
        model=model_of(analysis, again[0]).kind,
        shape=shape,
    )


def _again(analysis: RankAnalysis, steps: Sequence[Sequence[ModelCall]]) -> list[list[ModelCall]]:
    """Calls with a tensor all of whose inputs the module gets in another step too, by step; dropout differs."""
    times = Counter(chain.from_iterable({(call.model, call.inputs) for call in step} for step in steps))
    return [
        [
            call
            for call in step
            if times[call.model, call.inputs] > 1
            and tensors_of_call(analysis, call)
            and not model_of(analysis, call).training
        ]
        for step in steps
    ]


def _changing(steps: Sequence[Sequence[ModelCall]]) -> frozenset[int]:
    """Models that are called in every step, and never with inputs that they have had."""
    if not steps:
        return frozenset()
    every = frozenset.intersection(*(frozenset(call.model for call in step) for step in steps))
    times = Counter((call.model, call.inputs) for step in steps for call in step)
    return every - {model for (model, _), number in times.items() if number > 1}


DECODERS = ("decoder", "autoencoder", "vae")  # in the name of a class


@rule("RL-C28", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.03)
@says(
    "{model} decodes latents {calls:,} times per {step_ns} denoising step: previews, if only the last image is kept.",
    calls=value(lambda totals: max(round(totals.per_step("calls")), 1), "calls"),
)
def decoded_each_step(analysis: RankAnalysis) -> RuleMatch | None:
    """An autoencoder decodes the latents of every denoising step, and only those of the last one are an image."""
    steps = [step for step in steps_of_calls(analysis) if any(model_of(analysis, call).denoises for call in step)]
    decoding = [[call for call in step if _decodes(analysis, call)] for step in steps]
    calls = [call for step in decoding for call in step]
    if not is_usual(sum(map(bool, decoding)), len(steps)) or len({call.inputs for call in calls}) < len(calls):
        return None
    return RuleMatch(
        time_of(analysis, calls, with_before=True), calls=len(calls), model=model_of(analysis, calls[0]).kind
    )


def _decodes(analysis: RankAnalysis, call: ModelCall) -> bool:
    """It takes no timestep, and makes images larger or is called so."""
    model = model_of(analysis, call)
    if model.denoises:
        return False
    rows = analysis.rows_named(schema.is_upsampling, Kind.OPERATOR)
    begun_ns = analysis.timeline.spans.start_ns[rows]
    makes_larger = bool(((begun_ns >= call.start_ns) & (begun_ns < call.end_ns)).any())
    return makes_larger or any(name in model.kind.lower() for name in DECODERS)
