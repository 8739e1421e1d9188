"""The tables of a validation, as cells."""

from collections.abc import Iterable, Mapping

from redline.planner.validation.serving_accuracy import ServingAccuracy
from redline.planner.validation.step_accuracy import Accuracy
from redline.planner.validation.validate import Validation
from redline.report.language import _, marked
from redline.report.plan.serve.serving_messages import METRICS
from redline.report.report_table import ReportTable
from redline.report.text_parts import clipped

GROUPS: Mapping[str, str] = {
    "dense": marked("dense, 16 bits, below 16k tokens"),
    "megatron": marked("of these, stacks built on Megatron"),
    "experts": marked("mixtures of experts"),
    "fewer bits": marked("fp8 and fp4"),
    "long": marked("sequences of 16k tokens and more"),
    "everything": marked("all runs"),
}


def every(validation: Validation, *, brief: bool) -> dict[str, ReportTable]:
    """All tables by name, in the order in which they are shown."""
    return {
        "steps": steps(validation),
        "stacks": stacks(validation),
        "choices": choices(validation),
        "each_choice": each_choice(validation),
        "memory": memory(validation),
        "verdicts": verdicts(validation),
        "serving": serving(validation, brief=brief),
        "left_out": left_out(validation),
    }


def signed(error: float) -> str:
    return f"{100 * error:+.1f} %"


def share(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:.1f} %"


def _head(first: str) -> tuple[str, ...]:
    return (first, _("runs"), _("bias"), _("median"), _("p90"), _("in 80 % interval"))


def _row(name: str, runs: int, bias: float, median: float, p90: float, covered: float) -> tuple[str, ...]:
    return (name, f"{runs:,}", signed(bias), share(median), share(p90), share(covered))


def _accuracies(accuracies: Iterable[Accuracy], names: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        _row(_(names[accuracy.name]) if accuracy.name in names else accuracy.name, accuracy.runs, accuracy.bias,
             accuracy.median, accuracy.ninetieth,
             accuracy.covered)
        for accuracy in accuracies
    )  # fmt: skip


# --- training ---------------------------------------------------------------------------------------------------------


def steps(validation: Validation) -> ReportTable:
    step = validation.step
    rows = _accuracies((step.dense, step.megatron, *step.kinds, step.everything), GROUPS)
    note = _("{share} of the measured runs of language models can be modelled").format(share=share(step.expressible))
    return ReportTable(title=_("step time"), head=_head(_("runs of")), rows=rows, notes=(note,), empty="")


def stacks(validation: Validation) -> ReportTable:
    rows = _accuracies(validation.step.stacks, {})
    return ReportTable(title=_("step time by software stack"), head=_head(_("stack")), rows=rows, notes=(), empty="")


def left_out(validation: Validation) -> ReportTable:
    rows = tuple((clipped(reason, 90), f"{count:,}") for reason, count in validation.step.reasons)
    head = (_("why"), _("runs"))
    return ReportTable(title=_("runs that cannot be modelled"), head=head, rows=rows, notes=(), empty="")


def choices(validation: Validation) -> ReportTable:
    choice = validation.step.choice
    head = (_("models and sizes"), _("median loss"), _("p90"))
    rows = ((f"{len(choice.choices):,}", share(choice.median), share(choice.ninetieth)),)
    title = _("layout choice: throughput lost against the best measured layout")
    return ReportTable(title=title, head=head, rows=rows, notes=(), empty="")


def each_choice(validation: Validation) -> ReportTable:
    """Model by model: which size goes wrong."""
    head = (_("model"), _("GPUs"), _("layouts"), _("lost"))
    rows = tuple(
        (clipped(choice.model, 60), f"{choice.devices:,}", f"{choice.layouts:,}", share(choice.lost))
        for choice in validation.step.choice.choices
    )
    return ReportTable(title=_("layout choice, by model and size"), head=head, rows=rows, notes=(), empty="")


def memory(validation: Validation) -> ReportTable:
    rows = tuple(
        _row(
            _("all runs") if peak.stack == "all" else peak.stack,
            peak.rows,
            peak.bias,
            peak.median,
            peak.p90,
            peak.covered,
        )
        for peak in validation.memory.peaks
    )
    return ReportTable(title=_("peak memory by software stack"), head=_head(_("stack")), rows=rows, notes=(), empty="")


def verdicts(validation: Validation) -> ReportTable:
    """What was predicted against what happened."""
    fit_verdicts = validation.memory.verdicts
    head = (_("predicted"), _("ran"), _("failed"))
    rows = (
        (_("fits"), f"{fit_verdicts.ran - fit_verdicts.false_refusals:,}", f"{fit_verdicts.false_fits:,}"),
        (_("does not fit"), f"{fit_verdicts.false_refusals:,}", f"{fit_verdicts.failed - fit_verdicts.false_fits:,}"),
    )
    notes = (
        _(
            "{share} of the runs that failed were predicted to fit; {refused} of those that ran were predicted not to"
        ).format(
            share=share(fit_verdicts.false_fits / fit_verdicts.failed),
            refused=share(fit_verdicts.false_refusals / fit_verdicts.ran),
        ),
        _("{count:,} of the layouts predicted to fit failed here and ran elsewhere").format(
            count=fit_verdicts.contradicted
        ),
    )
    title = _("what fits: {count:,} layouts of nanotron").format(count=fit_verdicts.ran + fit_verdicts.failed)
    return ReportTable(title=title, head=head, rows=rows, notes=notes, empty="")


# --- serving ----------------------------------------------------------------------------------------------------------


def serving(validation: Validation, *, brief: bool) -> ReportTable:
    """`brief` has the runs of all GPUs together."""
    shown = [
        serving_accuracy for serving_accuracy in validation.serving if not brief or serving_accuracy.group == "held out"
    ]
    head = (_("engine"), _("figure"), *([] if brief else [_("runs of")]), *_head("")[1:])
    rows = tuple(_serving_row(accuracy, brief=brief) for accuracy in shown)
    return ReportTable(title=_("serving"), head=head, rows=rows, notes=(), empty="")


def _serving_row(serving_accuracy: ServingAccuracy, *, brief: bool) -> tuple[str, ...]:
    figures = _row(
        "",
        serving_accuracy.rows,
        serving_accuracy.bias,
        serving_accuracy.median,
        serving_accuracy.p90,
        serving_accuracy.covered,
    )[1:]
    groups = {"held out": _("all GPUs"), "held out, speculative": _("speculative decoding")}
    group = [] if brief else [groups.get(serving_accuracy.group, serving_accuracy.group)]
    return (serving_accuracy.engine, _(METRICS[serving_accuracy.metric]), *group, *figures)
