"""RL-C26: a model is called several times in a step for the same input, as for guidance, where one batch would do."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from redline.findings.called_models import (
    ModelCall,
    is_usual,
    model_of,
    shapes_of_call,
    steps_of_calls,
    tensors_of_call,
    time_of,
)
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics

STEP_SHARE = 0.05  # of the step


def match(analysis: RankAnalysis) -> RuleMatch | None:
    steps = steps_of_calls(analysis)
    in_turns = [group for step in _told_apart(analysis, steps) for group in step]
    if not is_usual(len(in_turns), len(steps)):
        return None
    later = [call for group in in_turns for call in _later(group)]
    return RuleMatch(
        claim=time_of(analysis, later),
        figures={"calls": float(np.median([len(group) for group in in_turns]))},
        names={"model": model_of(analysis, later[0]).kind},
    )


def _told_apart(analysis: RankAnalysis, steps: Sequence[Sequence[ModelCall]]) -> Iterator[list[list[ModelCall]]]:
    """Of each step, calls of one model in turns: all share an input that is new in the step, and what they do not
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


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{model} is called {calls:,} times in each {step_ns} step, with inputs of the same shapes, some of them the "
        "same: guidance runs in turns where one batch would do.",
        {
            "model": totals.names["model"],
            "calls": round(totals.figures["calls"] / max(totals.ranks, 1)),
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-C26",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("calls",),
    names=("model",),
    least_share=STEP_SHARE,
)
