"""RL-C27: the same input goes through the same module again in each step, as a prompt through its text encoder."""

from collections.abc import Iterator, Sequence

from redline.analysis.rank.rank_analysis import RankAnalysis
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
from redline.numerics import Numerics

STEP_SHARE = 0.03  # of the step


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Beside a model whose inputs change: a loop over one batch, as in a benchmark, is no such thing."""
    steps = steps_of_calls(analysis)
    again = [call for call in _again(analysis, steps) if call.model not in _changing(steps)]
    with_again = sum(any(call in again for call in step) for step in steps)
    if not _changing(steps) or not is_usual(with_again, len(steps)):
        return None
    shape = next(shape for shape in shapes_of_call(analysis, again[0]) if shape)
    return RuleMatch(
        claim=time_of(analysis, again, with_before=True),
        figures={"calls": float(len(again))},
        names={"model": model_of(analysis, again[0]).kind, "shape": shape},
    )


def _again(analysis: RankAnalysis, steps: Sequence[Sequence[ModelCall]]) -> list[ModelCall]:
    """Calls with a tensor, all of whose inputs the same module gets in another step too; dropout would differ."""
    given_in: dict[tuple[int, tuple[int, ...]], set[int]] = {}
    for place, step in enumerate(steps):
        for call in step:
            given_in.setdefault((call.model, call.inputs), set()).add(place)
    return [
        call
        for step in steps
        for call in step
        if len(given_in[call.model, call.inputs]) > 1
        and tensors_of_call(analysis, call)
        and not model_of(analysis, call).training
    ]


def _changing(steps: Sequence[Sequence[ModelCall]]) -> frozenset[int]:
    """Models that are called in every step, and never with inputs that they have had."""
    if not steps:
        return frozenset()
    every = frozenset.intersection(*(frozenset(call.model for call in step) for step in steps))
    calls = [(call.model, call.inputs) for step in steps for call in step]
    repeated = {model for model, inputs in calls if calls.count((model, inputs)) > 1}
    return every - repeated


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
