"""RL-C28: an autoencoder decodes the latents of every denoising step, and only those of the last one are an image."""

from collections.abc import Iterator

from redline.findings.called_models import ModelCall, is_usual, model_of, steps_of_calls, time_of
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.timeline import Kind
from redline.trace import schema

STEP_SHARE = 0.03  # of the step
DECODERS = ("decoder", "autoencoder", "vae")  # in the name of a class


def match(analysis: RankAnalysis) -> RuleMatch | None:
    steps = [step for step in steps_of_calls(analysis) if any(model_of(analysis, call).denoises for call in step)]
    decoding = [[call for call in step if _decodes(analysis, call)] for step in steps]
    calls = [call for step in decoding for call in step]
    if not is_usual(sum(map(bool, decoding)), len(steps)) or len({call.inputs for call in calls}) < len(calls):
        return None
    return RuleMatch(
        claim=time_of(analysis, calls, with_before=True),
        figures={"calls": float(len(calls))},
        names={"model": model_of(analysis, calls[0]).kind},
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


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{model} decodes latents {calls:,} times per {step_ns} denoising step: previews, if only the last image is "
        "kept.",
        {
            "model": totals.names["model"],
            "calls": max(round(totals.per_step("calls")), 1),
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-C28",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("calls",),
    names=("model",),
    least_share=STEP_SHARE,
)
