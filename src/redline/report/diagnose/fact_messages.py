"""The lines above the waterfall in words: ranks and devices, steps, window, utilisation, coverage."""

from collections.abc import Iterator, Mapping, Sequence

from redline.hardware import catalogue
from redline.hardware.machine import FigureSource
from redline.ledger.job.first_screen import Remark, StepTimes, Unseen, Utilisation
from redline.report import counted_nouns
from redline.report.diagnose.unseen_messages import why_no_peak
from redline.report.figure_names import unused
from redline.report.language import _, listed, marked, translate_rendered
from redline.report.text_parts import clipped, percent
from redline.units import format_ns, format_rate

_SEEN_TERM = 1e-3  # of a sum: less changes none of the digits shown
_ALL_KNOWN = 0.99  # of the kernel time: from here on a utilisation is not called a lower bound

# --- ranks and devices ------------------------------------------------------------------------------------------------


def headline(
    ranks: int,
    world_size: int,
    devices: Mapping[str, int],
    machines: Sequence[tuple[str, str]],
    *,
    synthetic: bool,
    predicted: bool = False,
    altered: str = "",
) -> str:
    """Ranks, their devices with how many have each, and whose figures were used, with the origin of these."""
    who = counted_nouns.ranks(ranks)
    if world_size >= ranks:
        who = _("{ranks} of {world:,}").format(ranks=who, world=world_size)
    text = _("{ranks} (synthetic, not a measurement) on {devices}; {figures}") if synthetic else ""
    if predicted:
        text = _("predicted, not measured: {ranks}, one per pipeline stage, on {devices}; {figures}")
        if world_size == 1:
            text = _("predicted, not measured: one rank that stands for all, on {devices}; {figures}")
    if altered:
        text = _("altered by {changes}, not measured: {ranks} on {devices}; {figures}")
    return (text or _("{ranks} on {devices}; {figures}")).format(
        changes=clipped(altered, 200),
        ranks=who,
        devices=listed(f"{count:,} x {name}" if len(devices) > 1 else name for name, count in devices.items()),
        figures=listed(_figures(name, origin) for name, origin in machines) or _("no peaks known"),
    )


def waterfall_title(*, predicted: bool, altered: bool) -> str:
    if altered:
        return _("average step of a rank, from the redline (math) up to the time that a replay gives it")
    if predicted:
        return _("average step of a rank, from the redline (math) up to the predicted time")
    return _("average step of a rank, from the redline (math) up to the measured time")


ORIGIN: Mapping[str, str] = {"catalogue": marked("catalogue"), "calibrated": marked("calibrated")}


def _figures(name: str, origins: str) -> str:
    said = listed(_(ORIGIN.get(origin, origin)) for origin in origins.split(", "))
    known = {"name": clipped(name, 60), "origin": said}
    sibling = sibling_of(name)
    if sibling:
        return _("figures of {name} ({origin}), peaks of {sibling}, its sibling").format(sibling=sibling, **known)
    return _("figures of {name} ({origin})").format(**known)


def sibling_of(machine: str) -> str:
    """The record whose peaks a machine has for want of its own; "" for none."""
    record = catalogue.record(machine)
    return record.sibling if record else ""


def device_name(name: str, *, on_cpu: bool, unknown: bool = False) -> str:
    if unknown:
        return _("a device that Redline does not know (its work was not used)")
    if on_cpu:
        return _("CPU (no device work in the trace)")
    return clipped(name, 60) or _("a device not named in the trace")


# --- steps ------------------------------------------------------------------------------------------------------------

ANCHORS: Sequence[str] = (
    marked("optimizer steps ({name})"),
    marked("data-loader rounds"),
    marked("steps of the serving engine"),
    marked("a repeating sequence of {count} collective"),
    marked("a repeating sequence of {count} collectives"),
    marked("a repeating sequence of {count} kernel"),
    marked("a repeating sequence of {count} kernels"),
    marked("spans named like {name}"),
    marked("no mark: the whole window is one"),
    marked("no mark: nothing is named like {name}"),
)
"""What the borders of steps may be taken from, as reading says it."""


def anchor_text(anchor: str) -> str:
    return clipped(translate_rendered(anchor, ANCHORS), 60)


def steps_line(steps: StepTimes, anchors: Sequence[str], counts: tuple[int, int]) -> str:
    if not steps.longest_ns:
        return _("none: nothing in the trace takes any time")
    least, most = counts
    number = f"{least:,}" if least == most else _("{least:,} to {most:,} per rank").format(least=least, most=most)
    unmarked = anchors[0].startswith("no mark")
    text = _("{number} ({anchor}): {lengths}") if unmarked else _("{number}, from {anchor}: {lengths}")
    return text.format(number=number, anchor=listed(map(anchor_text, anchors)), lengths=_lengths(steps))


def _lengths(steps: StepTimes) -> str:
    if steps.shortest_ns == steps.longest_ns:
        return format_ns(steps.longest_ns)
    text = _("median {median} ({shortest} to {longest})")
    if steps.uneven and steps.median_ns:  # of steps without length, no number of times is one
        text = _("median {median} ({shortest} to {longest}; the longest is {times:.0f} x the median)")
    return text.format(
        median=format_ns(round(steps.median_ns)),
        shortest=format_ns(steps.shortest_ns),
        longest=format_ns(steps.longest_ns),
        times=steps.longest_ns / (steps.median_ns or 1),
    )


def window_line(steps: StepTimes, *, several: bool) -> str:
    window_ns, in_steps_ns, trace_ns = (
        round(length) for length in (steps.window_ns, steps.in_steps_ns, steps.trace_ns)
    )
    text = _("{window} = {inside} in steps + {outside} outside").format(
        window=format_ns(window_ns), inside=format_ns(in_steps_ns), outside=format_ns(window_ns - in_steps_ns)
    )
    if trace_ns != window_ns:
        text = _("{window}; the trace spans {trace}").format(window=text, trace=format_ns(trace_ns))
    return _("{window} (average of the ranks)").format(window=text) if several else text


def device_line(steps: StepTimes) -> str:
    if not steps.device_window_ns:
        return _("no device work recorded")
    return _("busy {busy} (computing {computing}) of {window} between first and last work; idle {idle}").format(
        busy=format_ns(round(steps.busy_ns)),
        computing=format_ns(round(steps.computing_ns)),
        window=format_ns(round(steps.device_window_ns)),
        idle=percent(1 - steps.busy_ns / steps.device_window_ns),
    )


# --- utilisation ------------------------------------------------------------------------------------------------------


def mfu_line(use: Utilisation) -> str:
    """The ratio, and how to compute it again from what is printed."""
    needed_ns = {dtype: flops / use.peaks[dtype] * 1e9 for dtype, flops in use.model_flops.items()}
    terms = [
        f"{flop(use.model_flops[dtype])} / {format_rate(use.peaks[dtype], 'FLOP')} {dtype}"
        for dtype in sorted(needed_ns, key=lambda dtype: -needed_ns[dtype])
        if needed_ns[dtype] >= _SEEN_TERM * sum(needed_ns.values())
    ]
    done = terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"
    ratio = f"{_bounded(use, use.mfu)} = {done} / {format_ns(round(use.step_ns))}"
    return "".join([ratio, *(f"; {words}" for words in _origin_of_peaks(use))])


def _origin_of_peaks(use: Utilisation) -> Iterator[str]:
    if use.peak_origins == (str(FigureSource.CATALOGUE),):
        yield _("peak: catalogue")
    elif use.peak_origins == (str(FigureSource.CALIBRATED),):
        yield _("peak: calibrated, within {spread}").format(spread=percent(use.peak_spread))
    elif use.peak_origins:
        yield _("peaks: some from the catalogue, some calibrated")


def hfu_line(use: Utilisation) -> str:
    text = _("{ratio}, including {flops} per step recomputed in the backward pass")
    return text.format(ratio=_bounded(use, use.hfu), flops=flop(use.recomputed_flops))


def _bounded(use: Utilisation, ratio: float) -> str:
    is_bound = use.known_share < _ALL_KNOWN or use.unrated_flops
    digits = percent(ratio) if ratio >= 0.001 or not ratio else f"{100 * ratio:.2g} %"
    return _("at least {ratio}").format(ratio=digits) if is_bound else digits


def no_mfu_line(unseen: Sequence[Remark], *, on_cpu: bool) -> str:
    """Why there is no utilisation, and what to do about it."""
    return _("unknown: {why}").format(why=_why_no_mfu(unseen, on_cpu=on_cpu))


def _why_no_mfu(unseen: Sequence[Remark], *, on_cpu: bool) -> str:
    by_kind = {remark.what: remark for remark in unseen}
    if Unseen.NO_PEAK in by_kind:
        if on_cpu:
            return _("no peaks; run `redline calibrate -o machine.json`, pass `--machine machine.json`")
        return why_no_peak(by_kind[Unseen.NO_PEAK])
    if Unseen.UNKNOWN_WORK in by_kind and by_kind[Unseen.UNKNOWN_WORK].detail:
        return _("no shapes were recorded; profile with record_shapes=True")
    if Unseen.NO_DTYPE_PEAK in by_kind and Unseen.UNUSABLE_FIGURES in by_kind:
        text = _("no usable peak for {types} in the profile: {what}")
        what = unused(by_kind[Unseen.UNUSABLE_FIGURES].detail)
        return text.format(types=by_kind[Unseen.NO_DTYPE_PEAK].detail, what=what)
    if Unseen.NO_DTYPE_PEAK in by_kind:
        text = _("no peak for {types}; pass a profile with --machine FILE")
        return text.format(types=by_kind[Unseen.NO_DTYPE_PEAK].detail)
    return _("no matmul, convolution or attention whose shapes are known")


def coverage_line(kernels: int, known_share: float, rated_share: float, *, on_cpu: bool) -> str:
    if not kernels:
        return _("no compute in the traces")
    known, rated = percent(known_share), percent(rated_share)
    text = _("{kernels}: FLOPs known for {known} of their time, FLOPs and peak for {rated}")
    if not known_share:
        text = _("{kernels}: FLOPs known for {known} of their time")
    elif not rated_share:
        text = _("{kernels}: FLOPs known for {known} of their time; no peak to rate them against")
    elif known == rated:
        text = _("{kernels}: FLOPs and peak known for {known} of their time")
    counted = counted_nouns.operators(kernels) if on_cpu else counted_nouns.kernels(kernels)
    return text.format(kernels=counted, known=known, rated=rated)


def flop(flops: int) -> str:
    return format_rate(flops, "FLOP").removesuffix("/s")
