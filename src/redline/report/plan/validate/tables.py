"""The tables of a validation, as cells."""

from collections.abc import Iterable, Mapping

from redline.plan.serve.serving_plan import Repeats, ServingSituation
from redline.plan.train.search.plan_trust import Situation
from redline.plan.validation import (
    EXPERTS,
    HELD_OUT,
    SPECULATIVE,
    Accuracy,
    LeftOutAccuracy,
    ServingAccuracy,
    Validation,
)
from redline.plan.validation import LEFT_OUT as SERVING_LEFT_OUT
from redline.report.document import ReportTable
from redline.report.language import _, marked
from redline.report.plan.serve.serving_messages import METRICS
from redline.report.text_parts import clipped

GROUPS: Mapping[str, str] = {
    "dense": marked("dense, 16 bits, below 16k tokens"),
    "megatron": marked("of these, stacks built on Megatron"),
    "experts": marked("mixtures of experts"),
    "fewer bits": marked("fp8 and fp4"),
    "long": marked("sequences of 16k tokens and more"),
    "everything": marked("all runs"),
}
LEFT_OUT: Mapping[str, str] = {
    Situation.LAYOUT: marked("layouts (odd half)"),
    Situation.MODEL: marked("models of a stack"),
    Situation.GPUS: marked("numbers of GPUs of a stack"),
    Situation.GPU: marked("a GPU, from one stack"),
    Situation.GPU_ANYWHERE: marked("a GPU, from all stacks"),
    Situation.STACK: marked("a stack"),
    Situation.SOURCE: marked("a source"),
}
SHORT: Mapping[str, str] = {
    Situation.LAYOUT: marked("layouts"),
    Situation.MODEL: marked("models"),
    Situation.GPUS: marked("sizes"),
    Situation.GPU: marked("GPU"),
    Situation.GPU_ANYWHERE: marked("GPU, all"),
    Situation.STACK: marked("stack"),
}


def every(validation: Validation, *, brief: bool) -> dict[str, ReportTable]:
    """All tables by name, in the order in which they are shown."""
    return {
        "left_out": left_out(validation),
        "left_out_stacks": left_out_stacks(validation),
        "peers": peers(validation),
        "steps": steps(validation),
        "stacks": stacks(validation),
        "choices": choices(validation),
        "each_choice": each_choice(validation),
        "memory": memory(validation),
        "verdicts": verdicts(validation),
        "serving": serving(validation, brief=brief),
        "serving_groups": serving_groups(validation),
        "unmodelled": unmodelled(validation),
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


def left_out(validation: Validation) -> ReportTable:
    """The honest ones first: nothing like these runs was fitted to."""
    head = (_("left out of the fit"), _("groups"), *_head("")[1:], _("nearest run"))
    rows = tuple(_left_out_row(accuracy) for accuracy in validation.left_out.every)
    note = _("nearest run: median / p90 of what the most similar of the other runs says, scaled by FLOPs")
    return ReportTable(
        title=_("step time, by what was left out of the fit"), head=head, rows=rows, notes=(note,), empty=""
    )


def _left_out_row(accuracy: LeftOutAccuracy) -> tuple[str, ...]:
    name = _(LEFT_OUT[accuracy.situation])
    first = _("of these, with experts") if accuracy.name == EXPERTS else name
    runs, *figures = _row("", accuracy.runs, accuracy.bias, accuracy.median, accuracy.ninetieth, accuracy.covered)[1:]
    nearest = _both(accuracy.nearest_median, accuracy.nearest_ninetieth)
    return (first, f"{accuracy.groups:,}", runs, *figures, nearest)


def left_out_stacks(validation: Validation) -> ReportTable:
    """Median and p90 of each stack, situation by situation."""
    known = {(accuracy.name, accuracy.situation): accuracy for accuracy in validation.left_out.stacks}
    names = sorted({name for name, _situation in known})
    shown = [situation for situation in Situation if situation is not Situation.SOURCE]
    rows = tuple((name, *(_pair(known.get((name, situation))) for situation in shown)) for name in names)
    head = (_("stack"), *(_(SHORT[situation]) for situation in shown))
    title = _("step time by stack and what was left out: median / p90 of absolute errors, in %")
    return ReportTable(title=title, head=head, rows=rows)


def _pair(accuracy: LeftOutAccuracy | None) -> str:
    return "-" if accuracy is None else _both(accuracy.median, accuracy.ninetieth)


def _both(median: float, ninetieth: float) -> str:
    return f"{100 * median:.0f} / {100 * ninetieth:.0f}"


def peers(validation: Validation) -> ReportTable:
    """Other planners, on the same runs as plans whose stack was left out of the fit."""
    head = (_("planner"), _("runs"), _("median"), _("p90"), _("a plan: median"), _("p90"))
    rows = tuple(
        (
            peer.name,
            f"{peer.runs:,}",
            share(peer.median),
            share(peer.ninetieth),
            share(peer.own_median),
            share(peer.own_ninetieth),
        )
        for peer in validation.left_out.peers
    )
    title = _("step time: other planners, on the same runs, with their stack left out of the fit")
    return ReportTable(title=title, head=head, rows=rows)


def steps(validation: Validation) -> ReportTable:
    step = validation.step
    rows = _accuracies((step.dense, step.megatron, *step.kinds, step.everything), GROUPS)
    note = _("{share} of the measured runs of language models can be modelled").format(share=share(step.expressible))
    title = _("step time of layouts between those fitted to")
    return ReportTable(title=title, head=_head(_("runs of")), rows=rows, notes=(note,))


def stacks(validation: Validation) -> ReportTable:
    rows = _accuracies(validation.step.stacks, {})
    title = _("step time of layouts between those fitted to, by software stack")
    return ReportTable(title=title, head=_head(_("stack")), rows=rows)


def unmodelled(validation: Validation) -> ReportTable:
    rows = tuple((clipped(reason, 90), f"{count:,}") for reason, count in validation.step.reasons)
    head = (_("why"), _("runs"))
    return ReportTable(title=_("runs that cannot be modelled"), head=head, rows=rows)


def choices(validation: Validation) -> ReportTable:
    choice = validation.step.choice
    head = (_("models and sizes"), _("median loss"), _("p90"))
    rows = ((f"{len(choice.choices):,}", share(choice.median), share(choice.ninetieth)),)
    title = _("layout choice: throughput lost against the best measured layout")
    return ReportTable(title=title, head=head, rows=rows)


def each_choice(validation: Validation) -> ReportTable:
    """Model by model: which size goes wrong."""
    head = (_("model"), _("GPUs"), _("layouts"), _("lost"))
    rows = tuple(
        (clipped(choice.model, 60), f"{choice.devices:,}", f"{choice.layouts:,}", share(choice.lost))
        for choice in validation.step.choice.choices
    )
    return ReportTable(title=_("layout choice, by model and size"), head=head, rows=rows)


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
    return ReportTable(title=_("peak memory by software stack"), head=_head(_("stack")), rows=rows)


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
    return ReportTable(title=title, head=head, rows=rows, notes=notes)


# --- serving ----------------------------------------------------------------------------------------------------------


SERVING_GROUPS: Mapping[str, str] = {
    HELD_OUT: marked("odd half"),
    SERVING_LEFT_OUT[ServingSituation.MODEL]: marked("models"),
    SERVING_LEFT_OUT[ServingSituation.GPU]: marked("types of GPU"),
    SERVING_LEFT_OUT[ServingSituation.FAMILY]: marked("GPU families"),
    SPECULATIVE: marked("speculative decoding"),
}


def serving(validation: Validation, *, brief: bool) -> ReportTable:
    """`brief` has the runs of all GPUs together."""
    main = (HELD_OUT, *SERVING_LEFT_OUT.values())
    shown = [accuracy for accuracy in validation.serving if not brief or accuracy.group in main]
    head = (_("engine"), _("figure"), _("left out"), _("groups"), *_head("")[1:])
    return ReportTable(
        title=_("serving, by what was left out of the fit"),
        head=head,
        rows=tuple(map(_serving_row, shown)),
        notes=(_repeats(validation.first_token_repeats),),
    )


def _serving_row(accuracy: ServingAccuracy) -> tuple[str, ...]:
    group = _(SERVING_GROUPS[accuracy.group]) if accuracy.group in SERVING_GROUPS else accuracy.group
    return (
        accuracy.engine,
        _(METRICS[accuracy.metric]),
        group,
        f"{accuracy.groups:,}",
        f"{accuracy.rows:,}",
        signed(accuracy.bias),
        share(accuracy.median),
        share(accuracy.p90),
        share(accuracy.covered),
    )


def _repeats(repeats: Repeats) -> str:
    text = _(
        "TTFT: in {groups:,} groups of runs of one server with the same prompts and load, the largest is {spread} "
        "above the smallest in the median. One run predicts another with a median error of {repeat} (p90 "
        "{repeat_p90}); a fit without their model predicts them with {plan} (p90 {plan_p90})"
    )
    return text.format(
        groups=repeats.groups,
        spread=share(repeats.spread),
        repeat=share(repeats.median),
        repeat_p90=share(repeats.p90),
        plan=share(repeats.predicted_median),
        plan_p90=share(repeats.predicted_p90),
    )


def serving_groups(validation: Validation) -> ReportTable:
    """Group by group: which model or GPU goes wrong."""
    shown = tuple(METRICS)
    head = (_("engine"), _("left out"), _("group"), _("runs"), *(_(METRICS[metric]) for metric in shown))
    rows = tuple(
        (group.engine, _(SERVING_GROUPS[SERVING_LEFT_OUT[group.situation]]), clipped(group.name, 40), f"{group.rows:,}",
         *(signed(group.bias[metric]) if metric in group.bias else "-" for metric in shown))
        for group in validation.serving_groups
    )  # fmt: skip
    title = _("serving: median error of each group that was left out")
    return ReportTable(title=title, head=head, rows=rows)
