"""The host waits for the device: it reads numbers, copies small tensors, synchronises."""

import numpy as np

from redline.findings.callers import caller_of, site_of
from redline.findings.evidence import Grade
from redline.findings.rule import ClaimOrder, RuleMatch, Value, adds, alone, rule, says
from redline.findings.what_if import reading_gone, synchronising_gone, waiting_gone
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.step_borders import engine_gaps
from redline.ledger.rank.waits import Cause, Waits
from redline.numerics import Numerics
from redline.timeline.timeline import NONE
from redline.trace.steps import ENGINE_ANCHOR


@rule(
    "RL-H03",
    ClaimOrder.MOMENTS,
    Numerics.BITWISE,
    Grade.MEASURED,
    what_if=reading_gone,
    is_indirect=True,
    names=("operator",),
)
@says(
    "The host reads values back from the device, {reads:,} x per step, mostly in {operator}: it is "
    "blocked for {blocked_ns}, and the device loses {lost_ns}.",
    operator=Value(lambda totals: totals.names["operator"] or "a copy"),
    lost_ns=alone,
)
@adds(site_of)
def item_reads(analysis: RankAnalysis) -> RuleMatch | None:
    """Python reads values from the device, and the host waits for each.

    Numbers that are on the host already are not in it: nothing waits for them.
    """
    reads = analysis.waits.take(analysis.waits.cause == Cause.READ)
    if not analysis.on_gpu or not len(reads):
        return None
    blocked_ns = reads.end_ns - reads.start_ns
    numbers = reads.take(reads.bytes < SMALL_BYTES)  # larger ones would be copied later instead
    claim = analysis.busy_with(numbers.copy) & analysis.activity.copying | analysis.idle_after(reads.time)
    if analysis.timeline.step_anchor == ENGINE_ANCHOR:  # it has to read its tokens; what it does then is RL-ID03
        claim -= engine_gaps(analysis.timeline)
    return RuleMatch(
        claim, reads=len(reads), blocked_ns=blocked_ns.sum(), **caller_of(analysis, reads.operator, blocked_ns)
    )


@rule("RL-H04", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.DOCUMENTED, what_if=synchronising_gone, is_indirect=True)
@says(
    "The program itself calls {call}, {syncs:,} x per step: the host is blocked for {blocked_ns}, "
    "and the device is then idle for {idle_ns}.",
    order="syncs call blocked_ns idle_ns",
    idle_ns=alone,
)
@adds(site_of)
def explicit_sync(analysis: RankAnalysis) -> RuleMatch | None:
    """The program waits for the whole device on purpose."""
    syncs = _between_work(analysis, analysis.waits.take(analysis.waits.cause == Cause.SYNC))
    if not analysis.on_gpu or not len(syncs):
        return None
    blocked_ns = syncs.end_ns - syncs.start_ns
    return RuleMatch(
        analysis.idle_after(syncs.time),
        syncs=len(syncs),
        blocked_ns=blocked_ns.sum(),
        call=analysis.name(int(syncs.call[blocked_ns.argmax()])),
        **caller_of(analysis, syncs.call, blocked_ns),
    )


def _between_work(analysis: RankAnalysis, syncs: Waits) -> Waits:
    """Those that no operator made, with work before and after: the profiler synchronises where it begins and ends."""
    launch = analysis.timeline.device_work.launch
    launched_ns = analysis.timeline.spans.start_ns[launch[launch != NONE]]
    first_ns, last_ns = launched_ns.min(initial=np.iinfo(np.int64).max), launched_ns.max(initial=0)
    return syncs.take((syncs.operator == NONE) & (syncs.start_ns > first_ns) & (syncs.end_ns < last_ns))


SMALL_BYTES = 64 * 1024


@rule("RL-H06", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.DOCUMENTED, what_if=waiting_gone(Cause.WRITE))
@says(
    "{copies:,} copies of less than 64 KB per step go to the device synchronously: the host is "
    "blocked for {blocked_ns}, and the device loses {lost_ns}.",
    lost_ns=alone,
)
@adds(site_of)
def small_copies(analysis: RankAnalysis) -> RuleMatch | None:
    """Small tensors are made on the host and copied to the device, and the host waits for each copy."""
    writes = analysis.waits.take((analysis.waits.cause == Cause.WRITE) & (analysis.waits.bytes < SMALL_BYTES))
    return copying(analysis, writes)


def copying(analysis: RankAnalysis, writes: Waits) -> RuleMatch | None:
    """Copies to the device that the host waited for: what they took of the device's time, and what waiting cost."""
    if not analysis.on_gpu or not len(writes):
        return None
    blocked_ns = writes.end_ns - writes.start_ns
    return RuleMatch(
        analysis.busy_with(writes.copy) & analysis.activity.copying | analysis.idle_after(writes.time),
        copies=len(writes),
        blocked_ns=blocked_ns.sum(),
        size_bytes=np.maximum(writes.bytes, 0).sum(),  # -1 where the trace does not say
        copying_ns=analysis.timeline.spans.dur_ns[writes.copy].sum(),
        **caller_of(analysis, writes.operator, blocked_ns),
    )
