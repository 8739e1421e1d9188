"""What is said of the measured step that a plan's constants were fitted to: its accounts, and which constants moved."""

from collections.abc import Iterator, Mapping

from redline.plan.train.measured import ACCOUNTS, EVERY, PARTS, STEP, AnchoredAccuracy, FittedJob, MovedConstant
from redline.report.document import ReportTable
from redline.report.language import _, listed, marked, sentences
from redline.report.plan import layouts
from redline.report.plan.amounts import seconds, share
from redline.report.text_parts import clipped

NAMES: Mapping[str, str] = {
    "compute": marked("compute"),
    "optimizer": marked("optimizer"),
    "host": marked("host"),
    "communication": marked("exposed communication"),
    "waiting": marked("waiting for other stages"),
    "traffic": marked("all communication, hidden or not"),
    "matmuls": marked("of compute: matmuls"),
    "attention": marked("of compute: attention"),
}
_SHOWN_CONSTANTS = 6


def fact(fitted: FittedJob) -> str:
    measured = fitted.measured
    micro_batches = int(measured.batch.sequences / (measured.layout.dp * measured.layout.micro_batch))
    text = _("{step} per step of {layout}; predicted without it: {before}, with it: {after}")
    return text.format(
        step=seconds(measured.step_s),
        layout=layouts.as_text(measured.layout, micro_batches),
        before=seconds(fitted.before[STEP]),
        after=seconds(fitted.after[STEP]),
    )


def accounts(fitted: FittedJob) -> ReportTable:
    """Account by account, as far as they were recorded."""
    measured = fitted.measured
    told = [name for name in (*ACCOUNTS, *PARTS) if name in measured.accounts]
    rows = [
        (_(NAMES[name]), *(seconds(amounts[name]) for amounts in (measured.accounts, fitted.before, fitted.after)))
        for name in told
    ]
    rows.append((_("= step"), *map(seconds, (measured.step_s, fitted.before[STEP], fitted.after[STEP]))))
    return ReportTable(
        title=_("the measured step, account by account"),
        head=(_("account"), _("measured"), _("predicted before"), _("after the fit")),
        rows=tuple(rows),
        notes=tuple(_notes(fitted)),
    )


def _notes(fitted: FittedJob) -> Iterator[str]:
    moved = [_constant(each) for each in fitted.moved[:_SHOWN_CONSTANTS]]
    if moved:
        yield _("Constants of the software stack fitted to it: {constants}.").format(constants=listed(moved))
    if fitted.measured.inferred:
        yield _("Read from the recording: {names}.").format(names=listed(fitted.measured.inferred))
    if fitted.measured.unseen:
        yield sentences([f"{remark}." for remark in map(_, fitted.measured.unseen)])


def _constant(moved: MovedConstant) -> str:
    return f"{moved.name} {moved.before:.3g} -> {moved.after:.3g}"


def known(accuracy: AnchoredAccuracy | None) -> str:
    """For the first lines."""
    if accuracy is None:
        return _("from a measured step of this job, on a machine without published runs: never scored")
    text = _("from a measured step of this job: median error {median}, p90 {p90}")
    return text.format(median=share(accuracy.median), p90=share(accuracy.p90))


def trust(accuracy: AnchoredAccuracy | None) -> str:
    if accuracy is None:
        return _("{name}: {evidence}").format(name=_("step time"), evidence=known(None))
    text = _(
        "step time from a measured step of the same job: median error {median}, p90 {p90}, on other layouts of "
        "published jobs ({jobs:,}, {whose}) whose models were left out; without the step {median_without}, "
        "{p90_without}"
    )
    whose = _("of all software stacks") if accuracy.stack == EVERY else _("of {stack}")
    return text.format(
        median=share(accuracy.median),
        p90=share(accuracy.p90),
        median_without=share(accuracy.median_without),
        p90_without=share(accuracy.p90_without),
        jobs=accuracy.jobs,
        whose=whose.format(stack=clipped(accuracy.stack, 40)),
    )
