"""The headline figures of a job: each a short value under its name, with a line that explains it."""

from collections import Counter

from redline.capture.captured import Captured
from redline.findings.finding import Verdict
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import Outline
from redline.ledger.rank.digest import Digest
from redline.report.diagnose.capture_messages import span
from redline.report.diagnose.fact_messages import anchor_text, mfu_line, no_mfu_line, sibling_of
from redline.report.document import Fact
from redline.report.language import _, listed
from redline.report.text_parts import clipped, percent
from redline.units import format_count, format_ns


def facts_of(diagnosis: Diagnosis, outline: Outline, verdict: Verdict, captured: Captured | None = None) -> list[Fact]:
    return [
        _ranks(diagnosis),
        _device(diagnosis),
        _steps(diagnosis, outline),
        *([] if captured is None else [_captured(captured)]),
        _step_time(outline),
        _idle(outline, verdict),
        _mfu(diagnosis, outline),
    ]


def on_cpu(diagnosis: Diagnosis) -> bool:
    return all(rank.facts.device == "cpu" for rank in diagnosis.ranks)


def _ranks(diagnosis: Diagnosis) -> Fact:
    count, world = len(diagnosis.ranks), diagnosis.world_size
    detail = _("of {world:,}").format(world=world) if world > count else ""
    if any(rank.origin.synthetic for rank in diagnosis.ranks):
        detail = _("synthetic, not a measurement")
    if diagnosis.predicted:
        detail = _("predicted, not measured")
    if diagnosis.altered:
        detail = _("altered by {changes}, not measured").format(changes=clipped(diagnosis.altered, 200))
    return Fact(name=_("ranks read"), value=format_count(count), detail=detail)


def _device(diagnosis: Diagnosis) -> Fact:
    names = Counter(map(_device_name, diagnosis.ranks))
    machines = dict.fromkeys(rank.facts.machine for rank in diagnosis.ranks if rank.facts.machine)
    return Fact(
        name=_("device"),
        value=listed(f"{count:,} x {name}" if len(names) > 1 else name for name, count in names.items()),
        detail=listed(map(_peaks, machines)) or _("no peaks known"),
    )


def _peaks(machine: str) -> str:
    sibling = sibling_of(machine)
    if sibling:
        return _("peaks of {machine}, its sibling").format(machine=sibling)
    return _("peaks of {machine}").format(machine=clipped(machine, 60))


def _device_name(rank: Digest) -> str:
    if rank.facts.device == "cpu":
        return _("CPU")
    return clipped(rank.facts.device_name, 60) or _("not named")


def _steps(diagnosis: Diagnosis, outline: Outline) -> Fact:
    counts = sorted(len(rank.ledger.start_ns) for rank in diagnosis.ranks)
    value = format_count(counts[0]) if counts[0] == counts[-1] else f"{counts[0]:,} - {counts[-1]:,}"
    anchors = listed(dict.fromkeys(anchor_text(rank.origin.step_anchor) for rank in diagnosis.ranks))
    return Fact(name=_("steps"), value=value if outline.steps.longest_ns else "0", detail=anchors)


def _captured(captured: Captured) -> Fact:
    if captured.is_timed:
        return Fact(name=_("captured"), value=_("a timed window"), detail=_("no steps recognised: call redline.step()"))
    return Fact(
        name=_("captured"),
        value=_("steps {steps}").format(steps=span(captured)),
        detail=_("of {steps:,}; window {window:,} of {windows:,}").format(
            steps=captured.run_steps, window=captured.window, windows=captured.windows
        ),
    )


def _step_time(outline: Outline) -> Fact:
    steps = outline.steps
    spread = f"{format_ns(steps.shortest_ns)} - {format_ns(steps.longest_ns)}"
    return Fact(
        name=_("median step"),
        value=format_ns(round(steps.median_ns)),
        detail="" if steps.shortest_ns == steps.longest_ns else spread,
    )


def _idle(outline: Outline, verdict: Verdict) -> Fact:
    """Of the step, as the verdict and the waterfall are; what lies before the first and after the last work counts."""
    steps = outline.steps
    if not steps.device_window_ns:
        return Fact(name=_("device idle"), value="-", detail=_("no device work recorded"))
    detail = _("of the average step; {idle} between first and last work")
    return Fact(
        name=_("device idle"),
        value=percent(verdict.idle_share),
        detail=detail.format(idle=percent(1 - steps.busy_ns / steps.device_window_ns)),
    )


def _mfu(diagnosis: Diagnosis, outline: Outline) -> Fact:
    if outline.utilisation is None:
        return Fact(name=_("MFU"), value="-", detail=no_mfu_line(outline.unseen, on_cpu=on_cpu(diagnosis)))
    value, _equals, formula = mfu_line(outline.utilisation).partition(" = ")
    return Fact(name=_("MFU"), value=value, detail=f"= {formula}" if formula else "")
