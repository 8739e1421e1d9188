"""Steps of a serving engine: what they are, and what they wait for."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import ClaimOrder, MatchTotals, RuleMatch, adds, mean, ratio, rule, says, total, value
from redline.findings.rules.host_launches import LAUNCH_BOUND, has_stacks, stacks_inflate
from redline.findings.savings import in_families, of_calls, savings
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.step_borders import engine_gaps
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import CALL_KINDS, NONE
from redline.trace import schema
from redline.trace.steps import ENGINE_ANCHOR

PHASES = ("prefill", "decode", "mixed")


def phases_of(analysis: RankAnalysis) -> npt.NDArray[np.str_]:
    """The phase of each step; "" where it is not told, as in training."""
    timeline = analysis.timeline
    labels, which = np.unique(timeline.steps.label, return_inverse=True)
    phases: npt.NDArray[np.str_] = np.array(
        [schema.phase_of(timeline.text(label)) for label in labels.tolist()], np.str_
    )
    return phases[which]


def steps_in(analysis: RankAnalysis, *phases: str) -> Intervals:
    """The time of all steps of these phases."""
    chosen = np.isin(phases_of(analysis), phases)
    return Intervals.union_of(analysis.ledger.start_ns[chosen], analysis.ledger.end_ns[chosen])


PHASE_BUSY_SHARE = 0.7  # of the steps of a phase: the device, and not launching, limits it
UNKNOWN_SHARE = 0.5  # of the compute of a phase
_FIGURES = (  # of each phase
    "steps",
    "time_ns",
    "busy_ns",
    "computing_ns",
    "unknown_ns",
    "requests",
    "tokens",
    "rated_steps",
    "read_bytes",
    "roof_ns",
    "rated_ns",
)


def _explain_phases(totals: MatchTotals) -> Iterator[Evidence]:
    for phase in PHASES:
        if totals.figures.get(f"{phase}_steps"):
            yield from _of_phase(phase, totals)


@rule("RL-S01", ClaimOrder.NOTHING, Numerics.BITWISE, Grade.DOCUMENTED)
@adds(_explain_phases)
def phases(analysis: RankAnalysis) -> RuleMatch | None:
    """How the steps of a serving engine divide into prefill and decode."""
    phases = phases_of(analysis)
    figures: dict[str, float] = {}
    for phase in PHASES:
        chosen = phases == phase
        if not chosen.any():
            continue
        time = steps_in(analysis, phase) - analysis.unowned
        labels = analysis.timeline.steps.label[chosen].tolist()
        loads = np.array([schema.load_of(analysis.timeline.text(label)) for label in labels])
        by_steps = analysis.kernels.by_steps
        unknown = analysis.activity.compute.where((analysis.kernels.call_of == NONE) & ~by_steps.rated)
        rated = [step for step in by_steps.steps if schema.phase_of(analysis.timeline.text(step.label)) == phase]
        told = {
            "steps": float(chosen.sum()),
            "time_ns": time.length_ns,
            "busy_ns": (analysis.activity.busy & time).length_ns,
            "computing_ns": (analysis.activity.computing & time).length_ns,
            "unknown_ns": (unknown & time).length_ns,
            "requests": loads[:, 0].sum(),
            "tokens": loads[:, 1].sum(),
            "rated_steps": len(rated),
            "read_bytes": sum(step.work.bytes for step in rated),
            "roof_ns": sum(step.roof.roof_ns for step in rated),
            "rated_ns": sum(step.time_ns for step in rated),
        }
        figures |= {f"{phase}_{name}": float(value) for name, value in told.items()}
    return RuleMatch(Intervals.empty(), **figures) if figures else None


def _of_phase(phase: str, totals: MatchTotals) -> Iterator[Evidence]:
    figures = {name: totals.figures.get(f"{phase}_{name}", 0.0) for name in _FIGURES}
    steps, busy_share = figures["steps"], figures["busy_ns"] / max(figures["time_ns"], 1)
    all_steps, all_ns = (
        sum(totals.figures.get(f"{each_phase}_{of}", 0) for each_phase in PHASES) for of in ("steps", "time_ns")
    )
    yield Evidence(
        "Steps with {phase}: {steps:,} of {all_steps:,}, {time_share} of the time; the device is busy "
        "{busy_share} of that.",
        {
            "phase": phase,
            "steps": steps,
            "all_steps": all_steps,
            "time_share": figures["time_ns"] / max(all_ns, 1),
            "busy_share": busy_share,
        },
    )
    if figures["requests"]:
        yield Evidence(
            "On average {requests:,} requests and {tokens:,} tokens per step.",
            {name: round(figures[name] / max(steps, 1)) for name in ("requests", "tokens")},
        )
    if figures["rated_steps"]:
        yield Evidence(
            "By their labels and the model, such a step must read {read_bytes} of weights and of a cache in 16 bits, "
            "and needs {roof_ns} at least; kernels without a recorded operator take {rated_ns}.",
            {name: figures[name] / figures["rated_steps"] for name in ("read_bytes", "roof_ns", "rated_ns")},
        )
    if busy_share >= PHASE_BUSY_SHARE and figures["unknown_ns"] > UNKNOWN_SHARE * figures["computing_ns"]:
        yield Evidence("FLOPs and bytes are unknown for most of their kernels, so their efficiency is unknown too.")


EAGER_BUSY_SHARE = 0.7  # of a step: above this, launching is not what limits it


@rule(
    "RL-ID01",
    ClaimOrder.ENGINE_LAUNCHES,
    Numerics.REASSOCIATION,
    Grade.MEASURED,
    figures=("stacked",),
    **LAUNCH_BOUND,
)
@says(
    "{bound_steps:,} of {engine_steps:,} engine steps launch their kernels one by one, about "
    "{kernels:,} each; the device is busy {busy_share} of that time.",
    order="engine_steps bound_steps kernels busy_share",
    engine_steps=total("engine_steps"),
    bound_steps=total("bound_steps"),
    kernels=mean("kernels", "bound_steps"),
    busy_share=ratio("busy_ns", "own_ns"),
)
@stacks_inflate
def eager_launches(analysis: RankAnalysis) -> RuleMatch | None:
    """A serving engine launches every kernel of a step on its own, and the device waits for the launches."""
    ledger, spans = analysis.ledger, analysis.timeline.spans
    told = phases_of(analysis) != ""
    if not analysis.on_gpu or not told.any():
        return None
    calls = spans.rows_of(*CALL_KINDS)
    graphs = calls[matching(analysis.timeline, calls, schema.is_graph_launch)]
    own_ns = ledger.end_ns - ledger.start_ns - analysis.unowned.overlap_with(ledger.start_ns, ledger.end_ns)
    busy_ns = analysis.activity.busy.overlap_with(ledger.start_ns, ledger.end_ns)
    bound = told & (busy_ns < EAGER_BUSY_SHARE * own_ns) & (_begun_in(analysis, graphs) == 0)
    if not bound.any():
        return None
    return RuleMatch(
        analysis.launch_gaps & Intervals.union_of(ledger.start_ns[bound], ledger.end_ns[bound]),
        engine_steps=told.sum(),
        bound_steps=bound.sum(),
        own_ns=own_ns[bound].sum(),
        busy_ns=busy_ns[bound].sum(),
        kernels=_begun_in(analysis, analysis.activity.compute.row)[bound].sum(),
        stacked=has_stacks(analysis),
    )


def _begun_in(analysis: RankAnalysis, rows: I64) -> I64:
    """How many of these spans began in each step."""
    starts = np.sort(analysis.timeline.spans.start_ns[rows])
    edges = np.searchsorted(starts, np.stack([analysis.ledger.start_ns, analysis.ledger.end_ns]))
    number: I64 = edges[1] - edges[0]
    return number


BANDWIDTH_SHARE = 0.6  # of the published bandwidth: above it, the memory is what limits
STEP_SHARE = 0.5  # of the decode steps, in matrix products
_BITS = {"fp32": 32, "tf32": 32, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8}
_FEWEST_BITS = 4


@rule("RL-ID02", ClaimOrder.MEMORY_TRAFFIC, Numerics.LOWER_PRECISION, Grade.MEASURED, least_share=0.05)
@says(
    "A decode step reads {read_bytes} for its matmuls, at {bandwidth_share} of the memory bandwidth; "
    "they take {product_share} of the decode steps.",
    read_bytes=ratio("read_bytes", "decode_steps"),
    bandwidth_share=ratio("memory_ns", "product_ns"),
    product_share=ratio("product_ns", "decoding_ns"),
)
def decode_bandwidth(analysis: RankAnalysis) -> RuleMatch | None:
    """Decode steps read all weights for a few tokens, at nearly the full bandwidth of the memory."""
    decoding = steps_in(analysis, "decode")
    calls, compute = analysis.kernels.calls, analysis.activity.compute
    if not analysis.on_gpu or not len(decoding) or not len(calls):
        return None
    here = decoding.contains(compute.start_ns) & (analysis.kernels.call_of != NONE)
    products = in_families(calls, ("matmul",)) & np.isin(np.arange(len(calls)), analysis.kernels.call_of[here])
    products &= calls.math_ns < calls.memory_ns
    product_ns, memory_ns = calls.time_ns[products].sum(), calls.memory_ns[products].sum()
    decoding_ns = (decoding - analysis.unowned).length_ns
    if product_ns < STEP_SHARE * decoding_ns or memory_ns < BANDWIDTH_SHARE * product_ns:
        return None
    fewest = np.array([_FEWEST_BITS / _BITS.get(dtype, _FEWEST_BITS) for dtype in calls.dtype.tolist()])
    least_ns = np.maximum(calls.math_ns, calls.memory_ns * fewest)
    saved_ns = np.where(products, calls.time_ns - least_ns, 0.0)
    return RuleMatch(
        savings(analysis, of_calls(analysis, saved_ns)),
        product_ns=product_ns,
        memory_ns=memory_ns,
        decoding_ns=decoding_ns,
        read_bytes=calls.bytes[products].sum(),
        decode_steps=(phases_of(analysis) == "decode").sum(),
    )


LEAST_SHARE = 0.05  # of the steps
LEAST_GAP_NS = 200_000  # to read the tokens, fill the inputs of the next step and launch it: about a hundred calls


@rule("RL-ID03", ClaimOrder.ENGINE_GAPS, Numerics.BITWISE, Grade.MEASURED, least_share=LEAST_SHARE)
@says(
    "Between two steps of the engine the device is idle for {gap_ns} on average, {gaps:,} x in {steps:,} steps: "
    "{idle_ns} of each {step_ns} step. The host schedules, samples and detokenises meanwhile, though requests are "
    "waiting for their next token.",
    gap_ns=ratio("idle_ns", "gaps"),
    gaps=value(lambda totals: totals.figures["gaps"], "gaps"),
)
def gaps_between_steps(analysis: RankAnalysis) -> RuleMatch | None:
    """A serving engine leaves the device idle between its steps, while requests wait for their next token.

    Only where the next step goes on with requests that were there: then there is nothing that the engine waits
    for.
    """
    if not analysis.on_gpu or analysis.timeline.step_anchor != ENGINE_ANCHOR:
        return None
    idle = engine_gaps(analysis.timeline) & analysis.activity.idle & analysis.in_steps
    if idle.length_ns < LEAST_SHARE * analysis.steps_ns:
        return None
    ended = np.count_nonzero(idle.overlap_with(analysis.ledger.start_ns, analysis.ledger.end_ns))
    if idle.length_ns < LEAST_GAP_NS * ended:
        return None
    return RuleMatch(idle, gaps=ended, idle_ns=idle.length_ns)
