"""RL-C27: the same input goes through the same module again in each step, as a prompt through its text encoder."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

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

STEP_SHARE = 0.03  # of the step


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Beside a model whose inputs change: a loop over one batch, as in a benchmark, is no such thing."""
    steps = steps_of_calls(analysis)
    changing = _changing(steps)
    of_steps = [[call for call in step if call.model not in changing] for step in _again(analysis, steps)]
    if not changing or not is_usual(sum(map(bool, of_steps)), len(steps)):
        return None
    again = [call for step in of_steps for call in step]
    shape = next(shape for shape in shapes_of_call(analysis, again[0]) if shape)
    return RuleMatch(
        claim=time_of(analysis, again, with_before=True),
        figures={"calls": float(len(again))},
        names={"model": model_of(analysis, again[0]).kind, "shape": shape},
    )


def _again(analysis: RankAnalysis, steps: Sequence[Sequence[ModelCall]]) -> list[list[ModelCall]]:
    """Of each step, calls with a tensor all of whose inputs the module gets in another step too; dropout differs."""
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


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{model} is called {calls:,} times per {step_ns} step with an input that it gets in other steps too "
        "({shape}): it computes the same again.",
        {
            "model": totals.names["model"],
            "calls": max(round(totals.per_step("calls")), 1),
            "shape": totals.names["shape"],
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-C27",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("calls",),
    names=("model", "shape"),
    least_share=STEP_SHARE,
)
