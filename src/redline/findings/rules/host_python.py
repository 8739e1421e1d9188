"""Python that stops the launching thread: garbage collection, long work, work between steps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from redline.findings.evidence import Evidence, Grade
from redline.findings.kinds_of_work import WorkKind, around_models, is_training, kinds_in
from redline.findings.rule import ClaimOrder, MatchTotals, RuleMatch, adds, alone, rule, says, value, whole
from redline.findings.rules.host_launches import FEW_KERNELS
from redline.findings.usual_steps import without_warm_up
from redline.ledger.accounts import IDLE, Account
from redline.ledger.rank.call_sites import CallSite, call_sites
from redline.ledger.rank.host_activity import host_activities
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.phases import PhaseKind
from redline.ledger.rank.rank_analysis import PAUSE_NS, RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import CALL_KINDS, NONE, Kind
from redline.trace import schema


@rule("RL-H09", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.MEASURED)
@says(
    "The garbage collector runs {pauses:,} times in {steps:,} steps and stops Python for {paused_ns} "
    "per step; the device loses {lost_ns}.",
    pauses=whole("pauses"),
    lost_ns=alone,
)
def garbage_collection(analysis: RankAnalysis) -> RuleMatch | None:
    """Python's garbage collector runs in the middle of steps.

    Only collections that were recorded: a slow step alone does not tell why it was slow.
    """
    pauses = collecting(analysis) & analysis.in_steps
    if not len(pauses):
        return None
    return RuleMatch(analysis.idle_after(pauses), pauses=len(pauses), paused_ns=pauses.length_ns)


def collecting(analysis: RankAnalysis) -> Intervals:
    """When the collector ran; but for the compiler's garbage, which RL-H11 is about."""
    spans, recorded = analysis.timeline.spans, analysis.timeline.evidence.collections
    rows = analysis.rows_named(schema.is_garbage_collection, Kind.PYTHON)
    pauses = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    if recorded is not None:  # by Python itself; with stacks, the same runs stand in the trace as well
        pauses |= Intervals.union_of(recorded.begin_ns, recorded.begin_ns + recorded.dur_ns)
    return pauses - analysis.compiling


PAUSED_SHARE = 0.05  # of the steps
PROGRAM_SHARE = 0.5  # of the pauses on a CPU, in one function


def _place_of_long_work(totals: MatchTotals) -> Iterator[Evidence]:
    share = min(totals.figures["place_ns"] / max(totals.figures["paused_ns"], 1.0), 1.0)
    if totals.names["place"] and share:
        yield Evidence(
            "{place_share} of that time is spent in {place}: do it less often, with tensors, or in another process.",
            {"place_share": share, "place": totals.names["place"]},
        )
    elif totals.names["place"]:
        yield Evidence("Most of that time is spent in {place}.", {"place": totals.names["place"]})


@rule(
    "RL-H19",
    ClaimOrder.HOST_WORK,
    Numerics.BITWISE,
    Grade.DOCUMENTED,
    least_share=PAUSED_SHARE,
    figures=("place_ns", "paused_ns"),
    names=("place",),
)
@says(
    "No operator runs for more than 5 ms at a time, {pauses:,} x in {steps:,} recorded steps: {waiting_ns} of "
    "each {step_ns} step.",
    when="cpu",
    pauses=whole("pauses"),
    waiting_ns=alone,
)
@says(
    "The host launches nothing for more than 5 ms at a time, {pauses:,} x in {steps:,} recorded "
    "steps. The device waits {waiting_ns} of each {step_ns} step for it.",
    unless="cpu",
    pauses=whole("pauses"),
    waiting_ns=alone,
)
@adds(_place_of_long_work)
def long_host_work(analysis: RankAnalysis) -> RuleMatch | None:
    """The thread that launches does long work of another kind, and the device waits.

    A first step that warms up is left out; so is what other rules name: calls, compilation.
    """
    ledger = analysis.ledger
    pauses = analysis.pauses if analysis.on_gpu else _pauses_of_cpu(analysis)
    steps = without_warm_up(analysis, pauses.overlap_with(ledger.start_ns, ledger.end_ns))
    whole = pauses & steps
    few = len(analysis.activity.compute) < FEW_KERNELS * len(ledger.start_ns)
    if few or whole.length_ns < PAUSED_SHARE * steps.length_ns:
        return None
    pauses = whole - _otherwise_explained(analysis)
    evidence = analysis.timeline.evidence
    sites = call_sites(evidence, pauses, lambda stack: () if is_training(stack) and not analysis.on_gpu else stack)
    if not analysis.on_gpu and not _is_program(sites, pauses):
        return None
    place = sites[0].site if sites and sites[0].site else _place(analysis, pauses)
    return RuleMatch(
        pauses,
        pauses=len(whole),
        paused_ns=pauses.length_ns,
        place_ns=sites[0].time_ns if sites else 0,
        cpu=not analysis.on_gpu,
        place=place,
    )


def _pauses_of_cpu(analysis: RankAnalysis) -> Intervals:
    """Long times without an operator. What a training loop does between its steps has a rule of its own."""
    host = analysis.idle.accounts[Account.HOST]
    long = host.end - host.start > PAUSE_NS
    pauses = Intervals(host.start[long], host.end[long]) & analysis.in_steps
    return pauses - analysis.phases.time(Phase.BETWEEN) if len(analysis.passes.optimizer) else pauses


def _is_program(sites: Sequence[CallSite], pauses: Intervals) -> bool:
    """Samples put most of the time down to one function of the user that does not train.

    A CPU has pauses for other reasons too: Python between two operators, a thread that waits for a core.
    """
    return bool(sites) and bool(sites[0].site) and sites[0].time_ns >= PROGRAM_SHARE * pauses.length_ns


def _otherwise_explained(analysis: RankAnalysis) -> Intervals:
    spans = analysis.timeline.spans
    compiling = analysis.rows_named(schema.is_compilation, Kind.OPERATOR)
    calls = spans.rows_of(*CALL_KINDS)
    return Intervals.union_of(spans.start_ns[calls], spans.end_ns[calls]) | Intervals.union_of(
        spans.start_ns[compiling], spans.end_ns[compiling]
    )


def _place(analysis: RankAnalysis, pauses: Intervals) -> str:
    """Where in the program most of the time went: the function, else the region, else the operator."""
    paused = replace(
        analysis.idle,
        accounts={account: pauses if account == Account.HOST else Intervals.empty() for account in IDLE},
        of_lane={lane: time & pauses for lane, time in analysis.idle.of_lane.items()},
    )
    sums: dict[str, int] = {}
    for activity in host_activities(analysis.timeline, paused):
        place = activity.site or activity.region or activity.name
        sums[place] = sums.get(place, 0) + activity.time_ns
    return max(sums, key=lambda place: sums[place], default="")


LEAST_SHARE = 0.05  # of the steps: a log line and a scheduler of learning rates take less
MANY_OPERATORS = 20  # per step that compute or read: fewer are calls on whole tensors, not a loop
MANY_READS = 5  # per step: a loss, an accuracy and a norm are ordinary
LARGEST_SHARE = 0.5  # of the time between steps, that one operator takes
KIND_SHARE = 0.3  # of the time between steps: a kind with less does not say what it goes to


@rule(
    "RL-H25",
    ClaimOrder.MOMENTS,
    Numerics.BITWISE,
    Grade.DOCUMENTED,
    figures=(
        "operators",
        "computing",
        "reads",
        "checks",
        "sampled_ns",
        "site_ns",
        *(f"{kind}_ns" for kind in WorkKind),
    ),
    names=("site", "calls", "operator"),
    least_share=LEAST_SHARE,
)
@says(
    "{between_ns} of each {step_ns} step passes after the optimizer and before the next forward pass; operators "
    "in it: {operators:,}.",
    between_ns=alone,
)
@adds(lambda totals: [_what(totals)])
@says(
    "{site_share} of it is spent in {site}.",
    when="site",
    site_share=value(
        lambda totals: min(totals.figures["site_ns"] / max(totals.figures["sampled_ns"], 1.0), 1.0), "site_ns"
    ),
)
def work_between_steps(analysis: RankAnalysis) -> RuleMatch | None:
    """A training loop does much between its steps: it saves, evaluates, logs, averages, makes batches.

    Only where something says what the time goes to: a few calls on whole tensors are as fast as they can be.
    """
    phases, ledger, evidence = analysis.phases, analysis.ledger, analysis.timeline.evidence
    if not phases.known or not len(analysis.passes.optimizer):
        return None
    between = phases.time(Phase.BETWEEN) - collecting(analysis)  # which RL-H09 names
    steps = without_warm_up(analysis, between.overlap_with(ledger.start_ns, ledger.end_ns))
    claim, on_host = between & steps, phases.host.when(Phase.BETWEEN) & steps
    if claim.length_ns < LEAST_SHARE * steps.length_ns:
        return None
    operators = _operators(analysis, on_host)
    kinds, sites = kinds_in(evidence, on_host), call_sites(evidence, on_host, around_models, late_ns=0)
    host_ns = (phases.time(Phase.BETWEEN, PhaseKind.HOST) & steps).length_ns
    count = int(np.count_nonzero(steps.contains(ledger.start_ns)))
    is_python = bool(sites) and host_ns >= LEAST_SHARE * steps.length_ns
    is_known = max(kinds.values(), default=0) >= KIND_SHARE * claim.length_ns
    reads = _count(analysis, operators, schema.reads_scalar)
    computing = len(operators) - _count(analysis, operators, _only_moves)
    is_loop = computing + reads >= MANY_OPERATORS * count
    if not (is_python or is_known or is_loop):
        return None
    return RuleMatch(
        claim,
        operators=len(operators),
        computing=computing,
        reads=reads,
        checks=_count(analysis, operators, schema.checks_finite),
        sampled_ns=sum(site.time_ns for site in sites),
        site_ns=sites[0].time_ns if sites else 0,
        **{f"{kind}_ns": float(kinds.get(kind, 0)) for kind in WorkKind},
        site=sites[0].site if sites else "",
        calls=sites[0].calls if sites else "",
        operator=_largest(analysis, operators, claim.length_ns),
    )


def _largest(analysis: RankAnalysis, operators: I64, between_ns: int) -> str:
    """The operator that takes most of the time; "" where it is less than half of it."""
    spans = analysis.timeline.spans
    sums_ns = np.bincount(spans.name[operators], spans.dur_ns[operators], minlength=1)
    name = int(sums_ns.argmax())
    return analysis.timeline.text(name) if sums_ns[name] >= LARGEST_SHARE * between_ns else ""


def _operators(analysis: RankAnalysis, time: Intervals) -> I64:
    """Rows of operators that Python called in this time: no other operator is around them."""
    spans = analysis.timeline.spans
    rows = spans.rows_of(Kind.OPERATOR)
    parent = spans.parent[rows]
    is_outermost = (parent == NONE) | (spans.kind[parent] != Kind.OPERATOR)
    chosen: I64 = rows[is_outermost & time.contains(spans.start_ns[rows])]
    return chosen


def _only_moves(operator_name: str) -> bool:
    return schema.is_bookkeeping_operator(operator_name) or schema.is_copying_operator(operator_name)


def _count(analysis: RankAnalysis, rows: I64, is_meant: Callable[[str], bool]) -> int:
    return int(np.count_nonzero(matching(analysis.timeline, rows, is_meant)))


_BY_KIND = {  # but logging, of which operators may tell more
    WorkKind.CHECKPOINT: Evidence(
        "{kind_share} of it saves checkpoints: save less often, or with torch.distributed.checkpoint.async_save."
    ),
    WorkKind.EVALUATION: Evidence(
        "{kind_share} of it is evaluation, a model called without a backward pass: evaluate less often."
    ),
    WorkKind.INPUT: Evidence(
        "{kind_share} of it makes the next batch: let workers of a DataLoader load data meanwhile."
    ),
    WorkKind.AVERAGING: Evidence(
        "{kind_share} of it averages weights: one call such as torch._foreach_lerp_ does it for all of them."
    ),
}


def _what(totals: MatchTotals) -> Evidence:
    """Name what the time goes to, and so what to do: by samples of the stack, else by the operators that ran."""
    figures = totals.figures
    times_ns = {kind: figures.get(f"{kind}_ns", 0.0) for kind in WorkKind}
    kind = max(times_ns, key=lambda kind: times_ns[kind])
    values = {"kind_share": min(times_ns[kind] / max(figures["sampled_ns"], 1.0), 1.0)}
    if values["kind_share"] >= KIND_SHARE and kind in _BY_KIND:
        return replace(_BY_KIND[kind], values=values)
    return _what_by_operators(totals, values if kind is WorkKind.LOGGING else {"kind_share": 0.0})


def _what_by_operators(totals: MatchTotals, values: dict[str, float]) -> Evidence:
    reads, checks = totals.per_step("reads"), totals.per_step("checks")
    if checks >= MANY_READS:
        return Evidence(
            "{checks:,} checks for NaN or infinity run in each step: check the loss alone, or every 100 steps.",
            {"checks": round(checks)},
        )
    if reads >= MANY_READS:
        return Evidence(
            "Metrics or logs read {reads:,} numbers from tensors in each step, by .item(), .tolist() or an if: compute "
            "with tensors, and read every 100 steps.",
            {"reads": round(reads)},
        )
    if values["kind_share"] >= KIND_SHARE:
        return Evidence("{kind_share} of it is logging or metrics: do it every 100 steps.", values)
    if totals.per_step("computing") >= MANY_OPERATORS:
        return Evidence(
            "Python calls {computing:,} small operators there, one after another, as loops over parameters and metrics "
            "do: one call for all tensors, such as torch._foreach_lerp_ for an EMA, or every 100 steps.",
            {"computing": round(totals.per_step("computing"))},
        )
    return _where(totals.names["operator"], totals.names["calls"])


def _where(operator: str, calls: str) -> Evidence:
    if operator:
        return Evidence("Most of it is the operator {operator}.", {"operator": operator})
    if calls:
        return Evidence("Python works there, mostly in {calls}.", {"calls": calls})
    return Evidence("Python works there, outside operators.")
