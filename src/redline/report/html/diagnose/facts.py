"""The figures at the top of the page, each with a line that explains it, and the files that were read."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from redline.capture.captured import Captured
from redline.findings.finding import Verdict
from redline.job.read_failures import Failure
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import Outline
from redline.ledger.rank.digest import Digest
from redline.report.diagnose.capture_messages import span
from redline.report.diagnose.diagnosed_job import DiagnosedJob
from redline.report.diagnose.fact_messages import anchor_text, mfu_line, no_mfu_line, sibling_of
from redline.report.diagnose.unseen_messages import more_unread
from redline.report.document import Fact, ReportTable
from redline.report.language import _, listed
from redline.report.text_parts import clipped, percent
from redline.timeline.problems import Reason
from redline.units import format_count, format_ns

_NAME_LIMIT = 80
_MOST_FAILURES = 20


def facts_of(job: DiagnosedJob) -> list[Fact]:
    return [
        _ranks(job.diagnosis),
        _device(job.diagnosis),
        _steps(job.diagnosis, job.outline),
        *([] if job.captured is None else [_captured(job.captured)]),
        _step_time(job.outline),
        _idle(job.outline, job.findings.verdict),
        _mfu(job),
    ]


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


def _mfu(job: DiagnosedJob) -> Fact:
    if job.outline.utilisation is None:
        return Fact(name=_("MFU"), value="-", detail=no_mfu_line(job.outline.unseen, on_cpu=job.on_cpu))
    value, _equals, formula = mfu_line(job.outline.utilisation).partition(" = ")
    return Fact(name=_("MFU"), value=value, detail=f"= {formula}" if formula else "")


# --- files ------------------------------------------------------------------------------------------------------------


def sources_table(diagnosis: Diagnosis) -> ReportTable:
    return ReportTable(
        title=_("files"),
        empty="",
        head=(_("rank"), _("file"), _("host"), _("steps"), _("window"), _("dropped"), _("recorded"), _("versions")),
        rows=tuple(map(_row, diagnosis.ranks)),
        notes=(_("dropped: events that could not be used; `redline inspect` lists each reason with an example"),),
    )


def _row(rank: Digest) -> tuple[str, ...]:
    origin = rank.origin
    return (
        str(origin.rank),
        clipped(PurePath(origin.source).name, _NAME_LIMIT),
        clipped(origin.host, 40) or "-",
        format_count(len(rank.ledger.start_ns)),
        format_ns(rank.ledger.window_ns),
        format_count(sum(origin.dropped.values())),
        clipped(", ".join(origin.recorded), _NAME_LIMIT) or "-",
        clipped(", ".join(f"{name} {version}" for name, version in origin.versions.items()), _NAME_LIMIT) or "-",
    )


def dropped_text(diagnosis: Diagnosis) -> list[str]:
    """Why events were dropped, over all ranks, the commonest reason first."""
    total: Counter[str] = Counter()
    for rank in diagnosis.ranks:
        total.update(rank.origin.dropped)
    said = {reason.code: reason.sentence for reason in Reason}
    return [f"{format_count(count)}: {said.get(code, clipped(code))}" for code, count in total.most_common()]


def failure_text(failures: Sequence[Failure]) -> list[str]:
    """Files that could not be read."""
    shown = [clipped(failure.message.replace("\n", " "), 300) for failure in failures[:_MOST_FAILURES]]
    more = len(failures) - len(shown)
    return [*shown, more_unread(more)] if more > 0 else shown
