"""A calibration in words: figures with their intervals, names of what was measured, and sentences for people."""

from collections.abc import Iterator, Mapping, Sequence

from redline.calibration.calibration_record import (
    Calibration,
    CollectivePoint,
    Collectives,
    Conditions,
    Declined,
    DeviceInfo,
    Estimate,
    PairSpeed,
    RankSpeed,
    why_not,
)
from redline.calibration.compare import figures
from redline.calibration.doubling import overhead_up_to
from redline.report import counted_nouns
from redline.report.figure_names import why_unusable
from redline.report.language import _, clauses, listed, marked, ngettext, sentences
from redline.report.text_parts import clipped, percent
from redline.units import format_buffer, format_ns, format_rate

_NAME_LIMIT = 60
_MOST_NAMED = 8  # slow ranks or pairs
_WHOLE_CORE = 0.9  # of the processor time; with less, somebody else has the rest

# --- figures ----------------------------------------------------------------------------------------------------------


def amount(value: float, unit: str) -> str:
    """2.05e11 FLOP/s -> "205 GFLOP/s"."""
    if unit == "ns":
        return f"{value:.3g} ns" if abs(value) < 100 else format_ns(round(value))
    if unit.endswith("/s"):
        return format_rate(value, unit.removesuffix("/s"))
    return f"{value:.3g} {unit}".rstrip()


def interval(estimate: Estimate) -> str:
    """How far the further end is from the value; where that is more than the value itself, both ends as multiples."""
    if not estimate.value:
        return ""
    low, high = estimate.low / estimate.value, estimate.high / estimate.value
    reach = max(1 - low, high - 1)
    if reach >= 0.995:  # it would be shown as 100 %
        return f"{low:.2f}x..{_multiple(high)}x"
    return f"±{100 * reach:.1f} %" if reach < 0.0995 else f"±{100 * reach:.0f} %"


def _multiple(high: float) -> str:
    return f"{high:.1f}" if high < 10 else f"{high:.0f}" if high < 100 else ">99"


def figure(estimate: Estimate | None, unit: str) -> str:
    """ "205 GFLOP/s ±2.0 %"; a dash where it was not measured."""
    return "-" if estimate is None else f"{amount(estimate.value, unit)} {interval(estimate)}".rstrip()


def times(ratio: float) -> str:
    """1.9 times, with as many digits as say something."""
    return f"{ratio:.2f}".removesuffix("0") if ratio < 2 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


# --- names ------------------------------------------------------------------------------------------------------------

FAMILIES: Mapping[str, str] = {
    "compute": marked("compute"),
    "memory": marked("memory"),
    "overhead": marked("overhead"),
    "roofline": marked("roofline"),
    "collectives": marked("collectives"),
}
KERNELS: Mapping[str, str] = {
    "matmul": marked("matmul"),
    "convolution": marked("convolution"),
    "attention": marked("attention"),
}
MOVEMENTS: Mapping[str, str] = {
    "copy": marked("copy"),
    "triad": marked("triad"),
    "sum": marked("sum"),
    "allocate": marked("allocate"),
    "to_device_pinned": marked("to the device, pinned"),
    "to_device_pageable": marked("to the device, pageable"),
    "to_host_pinned": marked("to the host, pinned"),
    "to_host_pageable": marked("to the host, pageable"),
}
OVERHEADS: Mapping[str, str] = {
    "python_add": marked("Python adds two numbers"),
    "python_call": marked("Python calls an empty function"),
    "dispatch": marked("operator on one number, into a given tensor"),
    "tiny_op": marked("operator on one number, into a new tensor"),
    "item": marked("one number of a tensor to Python"),
    "module_call": marked("call of an empty module"),
    "linear_tiny": marked("linear layer of 8 features, forward"),
    "autograd_op": marked("operator on one number, forward and backward"),
    "launch": marked("launch of a kernel behind others"),
    "launch_latency": marked("launch of a kernel, and waiting for it"),
    "synchronise": marked("synchronising an idle device"),
    "graph_replay": marked("kernel in a replayed CUDA graph"),
    "copy_one": marked("copy of one number to the device"),
}
GROUPS: Mapping[str, str] = {
    "world": marked("world"),
    "node": marked("node"),
    "across": marked("across nodes"),
    "half": marked("halves"),
    "pair": marked("pairs"),
}
QUANTITIES: Mapping[str, str] = {
    "best_matmul": marked("best matmul"),
    "sustained_matmul": marked("sustained matmul"),
    "law_compute": marked("matmul model: compute roof"),
    "law_memory": marked("matmul model: memory roof"),
    "law_fixed": marked("matmul model: fixed time"),
    "memory_bandwidth": marked("memory bandwidth"),
    "loader": marked("data loader, workers"),
    "step_of_batch": marked("step at batch"),
    "ridge": marked("ridge"),
    "flat_bandwidth": marked("bandwidth below the ridge"),
    "linear_peak": marked("rate above the ridge"),
    "intensity": marked("FLOP per byte"),
    "latency": marked("latency of"),
    "rate": marked("rate of"),
    "collective_time": marked("time of"),
    "rank_work": marked("fixed work on rank"),
}


_DERIVED = frozenset(
    {"best_matmul", "law_compute", "law_memory", "law_fixed", "memory_bandwidth", "ridge", "flat_bandwidth"}
    | {"linear_peak", "latency", "rate"}
)
"""What follows from timings that are figures themselves."""


def named(names: Mapping[str, str], name: str) -> str:
    """In the language that is spoken; a name that a newer Redline wrote stays as it is."""
    return _(names[name]) if name in names else clipped(name.replace("_", " "), _NAME_LIMIT)


def quantity(name: str, of: str) -> str:
    known = {**KERNELS, **MOVEMENTS, **OVERHEADS, **QUANTITIES}
    return f"{named(known, name)} {clipped(of, _NAME_LIMIT)}".rstrip()


# --- what was measured, and under which conditions --------------------------------------------------------------------


def headline(calibration: Calibration) -> str:
    text = (
        _("{machine}: calibrated on {date} in {seconds} s, with --quick: fewer repetitions and shapes")
        if calibration.quick
        else _("{machine}: calibrated on {date} in {seconds} s")
    )
    said = text.format(machine=machine(calibration.subject), date=day(calibration.date), seconds=seconds(calibration))
    if not calibration.partial:
        return said
    return clauses([said, _("partial: stopped early by {signal}").format(signal=clipped(calibration.partial, 20))])


def seconds(calibration: Calibration) -> str:
    return f"{calibration.seconds:.0f}" if calibration.seconds >= 10 else f"{calibration.seconds:.1f}"


def day(date: str) -> str:
    """2026-11-15T14:30:00+00:00 -> 2026-11-15 14:30."""
    return clipped(date[:16].replace("T", " "), 20)


def more(count: int) -> str:
    return _("{count} more").format(count=count)


def not_usable(why: str) -> str:
    return _("Not usable: {why}").format(why=why)


def machine(subject: DeviceInfo) -> str:
    name = clipped(subject.name, _NAME_LIMIT)
    if subject.kind == "cuda":
        return name
    cores = ngettext("{count:,} core", "{count:,} cores", subject.cores).format(count=subject.cores)
    threads = ngettext("{count:,} thread", "{count:,} threads", subject.threads).format(count=subject.threads)
    return _("{name}, {cores}, {threads}").format(name=name, cores=cores, threads=threads)


def software(subject: DeviceInfo) -> str:
    return listed(f"{clipped(name, 40)} {clipped(version, 40)}" for name, version in subject.software)


def noise(conditions: Conditions) -> str:
    """What disturbed the measurement, each with its figure; "" on a quiet machine."""
    if not conditions.noisy:
        return ""
    causes = clauses(_cause(name, conditions) for name in conditions.noisy)
    said = [_("The machine was noisy while it was measured: {causes}.").format(causes=causes)]
    if conditions.beat_spread > 0:  # otherwise there was no beat, as with collectives alone
        said.append(_("All intervals are wider because of it; measure again on a quiet machine for narrower ones."))
    return sentences(said)


def _cause(name: str, conditions: Conditions) -> str:
    texts = {
        "steal": (_("the hypervisor took {share} of the CPU time (steal)"), conditions.steal_share),
        "other": (_("other processes used {share} of the CPU time"), conditions.other_share),
        "throttled": (_("a CPU quota throttled it {share} of the time"), conditions.throttled_share),
        "frequency": (_("clocks dropped by up to {share}"), conditions.frequency_drop),
        "beat": (_("the same short benchmark varied by ±{share}"), conditions.beat_spread),
        "waited": (_("runnable threads waited {share} of the time for a core"), conditions.waited_share),
    }
    if name == "load":
        return _("the load average was {load:.1f} before it began").format(load=conditions.load_before)
    if name not in texts:
        return clipped(name, _NAME_LIMIT)
    text, share = texts[name]
    return text.format(share=percent(share))


def samples(calibration: Calibration) -> str:
    """How many timings there are, and how many of them lie far from the others."""
    estimates = [figure.estimate for figure in figures(calibration) if figure.quantity not in _DERIVED]
    count, far = sum(estimate.samples for estimate in estimates), sum(estimate.outliers for estimate in estimates)
    if not count:
        return ""
    text = _("{count:,} timings, {far:,} of them outliers (kept: the median is robust to them)")
    return text.format(count=count, far=far)


def declined(missing: Declined) -> str:
    return _("{what}: {why}").format(what=clipped(missing.what, 100), why=clipped(missing.why, 200))


# --- findings of a health check ---------------------------------------------------------------------------------------


def troubles(collectives: Collectives | None) -> Iterator[str]:
    """What is wrong with the machine: results that are not right, then ranks and pairs that are slow."""
    if collectives is None:
        return
    yield from _most([_wrong(point) for point in collectives.points if not point.correct])
    yield from _most(
        [slow_rank(rank) for rank in sorted(collectives.ranks, key=lambda speed: -speed.ratio) if rank.slow]
    )
    yield from _most([slow_pair(pair_speed) for pair_speed in collectives.pairs if pair_speed.slow])


def _most(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST_NAMED]
    if len(lines) > _MOST_NAMED:
        yield more(len(lines) - _MOST_NAMED)


def _wrong(collective_point: CollectivePoint) -> str:
    text = _("{operation} of {size} among {ranks} gave a wrong result: do not trust anything computed here")
    return text.format(
        operation=clipped(collective_point.operation, _NAME_LIMIT),
        size=format_buffer(collective_point.size_bytes),
        ranks=counted_nouns.ranks(collective_point.ranks),
    )


def slow_rank(rank_speed: RankSpeed) -> str:
    text = _("rank {rank} on host {host} takes {ratio} times as long as usual for the same work")
    said = text.format(rank=rank_speed.rank, host=clipped(rank_speed.host, _NAME_LIMIT), ratio=times(rank_speed.ratio))
    if not 0 <= rank_speed.cpu_share < _WHOLE_CORE:
        return said
    return clauses(
        [
            said,
            _("it got {share} of its core: something else is running there").format(
                share=percent(rank_speed.cpu_share)
            ),
        ]
    )


def slow_pair(pair_speed: PairSpeed) -> str:
    text = _(
        "the link between ranks {first} and {second} is slow: latency {latency}, {more} times the usual; "
        "bandwidth {rate}, {share} of the usual"
    )
    return text.format(
        first=pair_speed.first,
        second=pair_speed.second,
        latency=format_ns(round(pair_speed.latency_ns)),
        more=times(pair_speed.latency_ratio),
        rate=format_rate(pair_speed.bytes_per_s, "B"),
        share=percent(pair_speed.bandwidth_ratio),
    )


def health(collectives: Collectives) -> str:
    text = _("healthy: all results are correct; none of {ranks} is slow, nor any link that could be compared")
    return text.format(ranks=counted_nouns.ranks(collectives.world))


def group_of_processes(collectives: Collectives) -> str:
    hosts = ngettext("{count:,} host", "{count:,} hosts", collectives.hosts).format(count=collectives.hosts)
    text = _("{ranks} on {hosts}, backend {backend}")
    return text.format(
        ranks=counted_nouns.ranks(collectives.world), hosts=hosts, backend=clipped(collectives.backend, 40)
    )


# --- experiments ------------------------------------------------------------------------------------------------------


def ridge(calibration: Calibration) -> str:
    """Where memory ends to be the limit; why that cannot be said, where its interval is too wide."""
    roofline = calibration.roofline
    if roofline is None:
        return ""
    why = why_not(roofline.ridge_flops_per_byte, calibration)
    if why:
        return not_usable(why_unusable(why))
    text = _(
        "The ridge point is {ridge}: loops with less arithmetic per byte are memory-bound, at "
        "{bandwidth}; loops with more are compute-bound, at {peak} ({dtype}, {method})."
    )
    return text.format(
        ridge=figure(roofline.ridge_flops_per_byte, "FLOP/byte"),
        bandwidth=figure(roofline.bandwidth_bytes_per_s, "B/s"),
        peak=figure(roofline.peak_flops_per_s, "FLOP/s"),
        dtype=roofline.dtype,
        method=clipped(roofline.method, 100),
    )


def doubling(calibration: Calibration) -> str:
    """Up to which batch a step is overhead rather than work; why that cannot be said, where it cannot."""
    ordered = sorted(calibration.doublings, key=lambda measured: measured.batch)
    times_ns = [time_ns for measured in ordered for time_ns in (measured.time_ns, measured.doubled_time_ns)]
    if not times_ns:
        return ""
    why = next((why for estimate in times_ns if (why := why_not(estimate, calibration, on_host=True))), "")
    if why:
        return not_usable(why_unusable(why))
    last, free = ordered[-1], overhead_up_to(ordered)
    if free is None:
        text = _("Doubling the batch of a small network is never free: {twice} takes {ratio} times as long as {batch}.")
        return text.format(batch=ordered[0].batch, twice=2 * ordered[0].batch, ratio=times(ordered[0].ratio))
    text = _(
        "Doubling the batch of a small network is mostly free up to {free}: {first} takes {time}, most of it overhead. "
        "Twice {batch} takes {ratio} times as long."
    )
    return text.format(
        free=free,
        first=ordered[0].batch,
        time=figure(ordered[0].time_ns, "ns"),
        batch=last.batch,
        ratio=times(last.ratio),
    )
