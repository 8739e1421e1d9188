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


def every(found: Validation, *, brief: bool) -> dict[str, ReportTable]:
    """All tables by name, in the order in which they are shown."""
    return {
        "steps": steps(found),
        "stacks": stacks(found),
        "choices": choices(found),
        "each_choice": each_choice(found),
        "memory": memory(found),
        "verdicts": verdicts(found),
        "serving": serving(found, brief=brief),
        "left_out": left_out(found),
    }


def signed(error: float) -> str:
    return f"{100 * error:+.1f} %"


def share(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:.1f} %"


def _head(first: str) -> tuple[str, ...]:
    return (first, _("runs"), _("bias"), _("median"), _("p90"), _("in 80 % interval"))


def _row(name: str, runs: int, bias: float, median: float, p90: float, covered: float) -> tuple[str, ...]:
    return (name, f"{runs:,}", signed(bias), share(median), share(p90), share(covered))


def _accuracies(found: Iterable[Accuracy], names: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        _row(_(names[one.name]) if one.name in names else one.name, one.runs, one.bias, one.median, one.ninetieth,
             one.covered)
        for one in found
    )  # fmt: skip


# --- training ---------------------------------------------------------------------------------------------------------


def steps(found: Validation) -> ReportTable:
    step = found.step
    rows = _accuracies((step.dense, step.megatron, *step.kinds, step.everything), GROUPS)
    note = _("{share} of the measured runs of language models can be modelled").format(share=share(step.expressible))
    return ReportTable(title=_("step time"), head=_head(_("runs of")), rows=rows, notes=(note,), empty="")


def stacks(found: Validation) -> ReportTable:
    rows = _accuracies(found.step.stacks, {})
    return ReportTable(title=_("step time by software stack"), head=_head(_("stack")), rows=rows, notes=(), empty="")


def left_out(found: Validation) -> ReportTable:
    rows = tuple((clipped(reason, 90), f"{count:,}") for reason, count in found.step.reasons)
    head = (_("why"), _("runs"))
    return ReportTable(title=_("runs that cannot be modelled"), head=head, rows=rows, notes=(), empty="")


def choices(found: Validation) -> ReportTable:
    choice = found.step.choice
    head = (_("models and sizes"), _("median loss"), _("p90"))
    rows = ((f"{len(choice.choices):,}", share(choice.median), share(choice.ninetieth)),)
    title = _("layout choice: throughput lost against the best measured layout")
    return ReportTable(title=title, head=head, rows=rows, notes=(), empty="")


def each_choice(found: Validation) -> ReportTable:
    """Model by model: which size goes wrong."""
    head = (_("model"), _("GPUs"), _("layouts"), _("lost"))
    rows = tuple(
        (clipped(one.model, 60), f"{one.devices:,}", f"{one.layouts:,}", share(one.lost))
        for one in found.step.choice.choices
    )
    return ReportTable(title=_("layout choice, by model and size"), head=head, rows=rows, notes=(), empty="")


def memory(found: Validation) -> ReportTable:
    rows = tuple(
        _row(_("all runs") if one.stack == "all" else one.stack, one.rows, one.bias, one.median, one.p90, one.covered)
        for one in found.memory.peaks
    )
    return ReportTable(title=_("peak memory by software stack"), head=_head(_("stack")), rows=rows, notes=(), empty="")


def verdicts(found: Validation) -> ReportTable:
    """What was predicted against what happened."""
    one = found.memory.verdicts
    head = (_("predicted"), _("ran"), _("failed"))
    rows = (
        (_("fits"), f"{one.ran - one.false_refusals:,}", f"{one.false_fits:,}"),
        (_("does not fit"), f"{one.false_refusals:,}", f"{one.failed - one.false_fits:,}"),
    )
    notes = (
        _(
            "{share} of the runs that failed were predicted to fit; {refused} of those that ran were predicted not to"
        ).format(share=share(one.false_fits / one.failed), refused=share(one.false_refusals / one.ran)),
        _("{count:,} of the layouts predicted to fit failed here and ran elsewhere").format(count=one.contradicted),
    )
    title = _("what fits: {count:,} layouts of nanotron").format(count=one.ran + one.failed)
    return ReportTable(title=title, head=head, rows=rows, notes=notes, empty="")


# --- serving ----------------------------------------------------------------------------------------------------------


def serving(found: Validation, *, brief: bool) -> ReportTable:
    """`brief` has the runs of all GPUs together."""
    shown = [one for one in found.serving if not brief or one.group == "held out"]
    head = (_("engine"), _("figure"), *([] if brief else [_("runs of")]), *_head("")[1:])
    rows = tuple(_serving_row(one, brief=brief) for one in shown)
    return ReportTable(title=_("serving"), head=head, rows=rows, notes=(), empty="")


def _serving_row(one: ServingAccuracy, *, brief: bool) -> tuple[str, ...]:
    figures = _row("", one.rows, one.bias, one.median, one.p90, one.covered)[1:]
    groups = {"held out": _("all GPUs"), "held out, speculative": _("speculative decoding")}
    group = [] if brief else [groups.get(one.group, one.group)]
    return (one.engine, _(METRICS[one.metric]), *group, *figures)
