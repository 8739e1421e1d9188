"""The accuracy of plans as a document, as JSON, as tables and as a page; docs/reference/plan.md has every field."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redline.plan.accuracy import RENEWING
from redline.plan.serve.serving_plan import Repeats, ServingSituation
from redline.plan.train.search.plan_trust import Situation
from redline.plan.validation import (
    EXPERTS,
    HELD_OUT,
    SPECULATIVE,
    Accuracy,
    LeftOutAccuracy,
    Scatter,
    ServingAccuracy,
    Validation,
)
from redline.plan.validation import LEFT_OUT as SERVING_LEFT_OUT
from redline.report.data import enveloped
from redline.report.document import (
    Chart,
    Document,
    Fact,
    Heading,
    PageBlock,
    PageDocument,
    Paragraph,
    ReportTable,
    Section,
    titled,
)
from redline.report.language import _, marked
from redline.report.plan.amounts import figures
from redline.report.plan.serving_messages import METRICS
from redline.report.text_parts import clipped

_OF_NOTEBOOKS = ("steps", "choices", "memory", "verdicts", "serving")


def headline(validation: Validation) -> str:
    text = _(
        "Plans against published measurements: {steps:,} step times, {peaks:,} memory peaks, {served:,} serving figures"
    )
    served = sum(accuracy.rows for accuracy in validation.serving if accuracy.group == HELD_OUT)
    return text.format(steps=validation.step.everything.runs, peaks=validation.memory.peaks[-1].rows, served=served)


def split(validation: Validation) -> str:
    return _(
        "First, whole groups of runs are left out of the fit: a plan quotes the line of its own situation. The other "
        "tables of step time leave out runs with odd ids alone: {share} of these have a sibling in the fit, the same "
        "model, machine and software stack in another layout, so they are for layouts between measured ones. Errors "
        "are predicted / measured - 1; median and p90 are of absolute errors. In a checkout, `{command}` makes these "
        "tables anew."
    ).format(share=share(validation.step.siblings), command=RENEWING)


def document_of(validation: Validation, *, brief: bool = False) -> Document:
    """Choices and groups one by one are for the page; `brief` is for a notebook."""
    tables = every(validation, brief=True)
    shown = _OF_NOTEBOOKS if brief else [name for name in tables if name not in ("each_choice", "serving_groups")]
    first = (Heading(text=headline(validation)), Paragraph(text=split(validation)))
    return Document(blocks=(first, *(tables[name] for name in shown)))


def record_of(validation: Validation) -> dict[str, Any]:
    step, memory = validation.step, validation.memory
    record = {
        "left_out": figures(validation.left_out, "every stacks peers"),
        "step": {
            **figures(step, "dense megatron stacks kinds everything choice expressible siblings"),
            "reasons": [{"reason": reason, "runs": count} for reason, count in step.reasons],
        },
        "memory": {
            **figures(memory, "peaks verdicts"),
            "left_out": [{"reason": reason, "runs": count} for reason, count in memory.left_out.items()],
        },
        **figures(validation, "serving serving_groups first_token_repeats"),
    }
    return enveloped("plan-validation", 3, "redline plan validate", record)


# --- tables -----------------------------------------------------------------------------------------------------------

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


# --- the page ---------------------------------------------------------------------------------------------------------


def page_of(validation: Validation) -> PageDocument:
    tables = every(validation, brief=False)
    shown = {name: titled(name, table.title, table) for name, table in tables.items()}
    seen = _("Each point is a held-out run. On the line, prediction and measurement agree.")
    steps = Chart(name="steps_seen", data=figure(validation.step_points, "s", 1.0), about=seen)
    memory = Chart(name="memory_seen", data=figure(validation.memory_points, "GB", 1e9))
    each = _("Time per output token.")
    serving = Chart(name="serving_seen", data=figure(validation.serving_points, "ms", 1e-3), about=each)
    by_group = titled("serving", _("By engine, figure and what was left out"), tables["serving"])
    of_steps = ("left_out", "left_out_stacks", "peers", "steps", "stacks", "choices", "each_choice", "unmodelled")
    sections: tuple[tuple[str, str, tuple[PageBlock, ...]], ...] = (
        ("steps", _("Step time"), (steps, *(table for name in of_steps for table in shown[name]))),
        ("memory", _("Memory"), (memory, *shown["memory"], *shown["verdicts"])),
        ("serving", _("Serving"), (serving, *by_group, *shown["serving_groups"])),
    )
    return PageDocument(
        title=_("How well plans predict"),
        headline=_headline(validation),
        said=(headline(validation), split(validation)),
        facts=tuple(_facts(validation)),
        sections=tuple(Section(name=name, link=title, title=title, blocks=blocks) for name, title, blocks in sections),
        drawers=("plan_charts.js",),
        words={
            "measured": _("measured"),
            "predicted": _("predicted"),
            "equal": _("as measured"),
            "within": _("within 25 %"),
        },
    )


def _headline(validation: Validation) -> str:
    said = _(
        "Median error: step time {step} where the model was left out of the fit, peak memory {peak} on held-out runs."
    )
    return said.format(
        step=share(_left_out(validation, Situation.MODEL).median),
        peak=share(validation.memory.peaks[-1].median),
    )


def _left_out(validation: Validation, situation: Situation) -> LeftOutAccuracy:
    return next(accuracy for accuracy in validation.left_out.every if accuracy.situation is situation)


def _facts(validation: Validation) -> list[Fact]:
    peaks, verdicts = validation.memory.peaks[-1], validation.memory.verdicts
    below = _("p90 {share}")
    lost = _("median throughput loss")
    names = {
        Situation.MODEL: _("step time, new model"),
        Situation.GPU: _("step time, new GPU"),
        Situation.STACK: _("step time, new stack"),
    }
    steps = {name: _left_out(validation, situation) for situation, name in names.items()}
    return [
        *(
            Fact(name=name, value=share(step.median), detail=below.format(share=share(step.ninetieth)))
            for name, step in steps.items()
        ),
        Fact(name=_("GPU memory"), value=share(peaks.median),
             detail=below.format(share=share(peaks.p90))),
        Fact(name=_("wrongly predicted to fit"), value=share(verdicts.false_fits / verdicts.failed), detail=""),
        Fact(name=_("layout choice"), value=share(validation.step.choice.median), detail=lost),
    ]  # fmt: skip


def figure(scatters: Sequence[Scatter], unit: str, scale: float) -> dict[str, Any]:
    """Points by group, the largest group first so that small ones lie above it."""
    ordered = sorted(scatters, key=lambda scatter: -len(scatter.measured))
    return {"unit": unit, "groups": [_group(scatter, unit, scale) for scatter in ordered]}


def _group(scatter: Scatter, unit: str, scale: float) -> dict[str, Any]:
    points = [
        {
            "x": _digits(measured / scale),
            "y": _digits(predicted / scale),
            "text": _("{name}\nmeasured {measured:.4g} {unit}, predicted {predicted:.4g} {unit}").format(
                name=scatter.name, measured=measured / scale, predicted=predicted / scale, unit=unit
            ),
        }
        for measured, predicted in zip(scatter.measured, scatter.predicted, strict=True)
    ]
    return {"name": scatter.name, "points": points}


def _digits(value: float) -> float:
    """Four are more than a chart can show."""
    return float(f"{value:.4g}")
