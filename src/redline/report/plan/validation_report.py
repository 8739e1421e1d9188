"""The accuracy of plans as a document, as JSON, as tables and as a page; docs/reference/plan.md has every field."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from redline.plan.accuracy import RENEWING
from redline.plan.serve.serving_plan import ServingSituation
from redline.plan.train.search.plan_trust import Situation
from redline.report.data import enveloped
from redline.report.document import (
    Chart,
    Document,
    Fact,
    Heading,
    PageBlock,
    PageDocument,
    Paragraph,
    ReportColumn,
    ReportTable,
    Section,
    capital,
    named,
    table_of,
)
from redline.report.language import _, marked
from redline.report.plan.amounts import LEFT_OUT, digits, plain
from redline.report.plan.serving_messages import METRICS, repeats_as_text
from redline.report.text_parts import clipped

Record = Mapping[str, Any]
"""As `accuracy.json` has it: bench/plan/validation.py says what each field is."""
_OF_NOTEBOOKS = ("steps", "choices", "memory", "verdicts", "serving")


def headline(validation: Record) -> str:
    text = _(
        "Plans against published measurements: {steps:,} step times, {peaks:,} memory peaks, {served:,} serving figures"
    )
    served = sum(accuracy["rows"] for accuracy in validation["serving"] if accuracy["group"] == HELD_OUT)
    peaks = validation["memory"]["peaks"][-1]["rows"]
    return text.format(steps=validation["step"]["everything"]["runs"], peaks=peaks, served=served)


def split(validation: Record) -> str:
    return _(
        "First, whole groups of runs are left out of the fit: a plan quotes the line of its own situation. The other "
        "tables of step time leave out runs with odd ids alone: {share} of these have a sibling in the fit, the same "
        "model, machine and software stack in another layout, so they are for layouts between measured ones. Errors "
        "are predicted / measured - 1; median and p90 are of absolute errors. In a checkout, `{command}` makes these "
        "tables anew."
    ).format(share=share(validation["step"]["siblings"]), command=RENEWING)


def document_of(validation: Record, *, brief: bool = False) -> Document:
    """Choices and groups one by one are for the page; `brief` is for a notebook."""
    tables = every(validation, brief=True)
    shown = _OF_NOTEBOOKS if brief else [name for name in tables if name not in ("each_choice", "serving_groups")]
    first = (Heading(text=headline(validation)), Paragraph(text=split(validation)))
    return Document(blocks=(first, *(tables[name] for name in shown)))


def record_of(validation: Record) -> dict[str, Any]:
    """All but the points of charts."""
    record = {name: part for name, part in validation.items() if name in _IN_JSON}
    for part, name in (("step", "reasons"), ("memory", "left_out")):
        counted = [{"reason": reason, "runs": count} for reason, count in dict(record[part][name]).items()]
        record[part] = {**{key: value for key, value in record[part].items() if key != name}, name: counted}
    return enveloped("plan-validation", 3, "redline plan validate", plain(record))


_IN_JSON = ("left_out", "step", "memory", "serving", "serving_groups", "first_token_repeats")

# --- tables -----------------------------------------------------------------------------------------------------------

GROUPS: Mapping[str, str] = {
    "dense": marked("dense, 16 bits, below 16k tokens"),
    "megatron": marked("of these, stacks built on Megatron"),
    "experts": marked("mixtures of experts"),
    "fewer bits": marked("fp8 and fp4"),
    "long": marked("sequences of 16k tokens and more"),
    "everything": marked("all runs"),
    "all": marked("all runs"),
}
HELD_OUT = "held out"
SERVING_GROUPS: Mapping[str, str] = {
    HELD_OUT: marked("odd half"),
    **{f"{situation} left out": LEFT_OUT[situation] for situation in ServingSituation},
    "held out, speculative": marked("speculative decoding"),
}


def every(validation: Record, *, brief: bool) -> dict[str, ReportTable]:
    """All tables by name, in the order in which they are shown."""
    step, left = validation["step"], validation["left_out"]
    between = _("step time of layouts between those fitted to")
    return {
        "left_out": table_of(
            _of_left_out(),
            left["every"],
            title=_("step time, by what was left out of the fit"),
            notes=[_("nearest run: median / p90 of what the most similar of the other runs says, scaled by FLOPs")],
        ),
        "left_out_stacks": left_out_stacks(left["stacks"]),
        "peers": table_of(
            _of_peers(),
            left["peers"],
            title=_("step time: other planners, on the same runs, with their stack left out of the fit"),
        ),
        "steps": table_of(
            (_column(_("runs of"), "name", _group), *_errors()),
            (step["dense"], step["megatron"], *step["kinds"], step["everything"]),
            title=between,
            notes=[
                _("{share} of the measured runs of language models can be modelled").format(
                    share=share(step["expressible"])
                )
            ],
        ),
        "stacks": table_of(
            (_column(_("stack"), "name"), *_errors()),
            step["stacks"],
            title=_("step time of layouts between those fitted to, by software stack"),
        ),
        "choices": table_of(
            (
                _column(_("models and sizes"), "choices", lambda choices: count(len(choices))),
                _column(_("median loss"), "median", share),
                _column(_("p90"), "ninetieth", share),
            ),
            [step["choice"]],
            title=_("layout choice: throughput lost against the best measured layout"),
        ),
        "each_choice": table_of(
            (
                _column(_("model"), "model", lambda name: clipped(name, 60)),
                _column(_("GPUs"), "devices", count),
                _column(_("layouts"), "layouts", count),
                _column(_("lost"), "lost", share),
            ),
            step["choice"]["choices"],
            title=_("layout choice, by model and size"),
        ),
        "memory": table_of(
            (_column(_("stack"), "stack", _group), *_errors("rows", "p90")),
            validation["memory"]["peaks"],
            title=_("peak memory by software stack"),
        ),
        "verdicts": verdicts(validation),
        "serving": serving(validation, brief=brief),
        "serving_groups": serving_groups(validation),
        "unmodelled": table_of(
            (_column(_("why"), 0, lambda reason: clipped(reason, 90)), _column(_("runs"), 1, count)),
            step["reasons"],
            title=_("runs that cannot be modelled"),
        ),
    }


def signed(error: float) -> str:
    return f"{100 * error:+.1f} %"


def share(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:.1f} %"


def count(number: int) -> str:
    return f"{number:,}"


def _group(name: str) -> str:
    return _(GROUPS[name]) if name in GROUPS else name


def _both(median: float, ninetieth: float) -> str:
    return f"{100 * median:.0f} / {100 * ninetieth:.0f}"


def _column(title: str, key: str | int, show: Callable[[Any], str] = str) -> ReportColumn:
    return ReportColumn(str(key), title, show, itemgetter(key))


def _errors(runs: str = "runs", p90: str = "ninetieth") -> tuple[ReportColumn, ...]:
    return (
        _column(_("runs"), runs, count),
        _column(_("bias"), "bias", signed),
        _column(_("median"), "median", share),
        _column(_("p90"), p90, share),
        _column(_("in 80 % interval"), "covered", share),
    )


# --- training ---------------------------------------------------------------------------------------------------------


def _of_left_out() -> Iterable[ReportColumn]:
    """The honest ones first: nothing like these runs was fitted to."""

    def name(row: Record) -> str:
        situation = row["situation"]
        return _("mixtures of experts") if row["name"] == "experts" else _(LEFT_OUT[situation])

    def nearest(row: Record) -> str:
        return _both(row["nearest_median"], row["nearest_ninetieth"])

    yield ReportColumn("name", _("left out of the fit"), read=name)
    yield _column(_("groups"), "groups", count)
    yield from _errors()
    yield ReportColumn("nearest", _("nearest run"), read=nearest)


def left_out_stacks(accuracies: Sequence[Record]) -> ReportTable:
    """Median and p90 of each stack, situation by situation."""
    known = {(row["name"], row["situation"]): _both(row["median"], row["ninetieth"]) for row in accuracies}
    shown = [situation for situation in Situation if situation is not Situation.SOURCE]
    rows = tuple(
        (name, *(known.get((name, situation), "-") for situation in shown))
        for name in sorted({name for name, _situation in known})
    )
    head = (_("stack"), *(_(LEFT_OUT[situation]) for situation in shown))
    title = _("step time by stack and what was left out: median / p90 of absolute errors, in %")
    return ReportTable(title=title, head=head, rows=rows)


def _of_peers() -> Iterable[ReportColumn]:
    """Other planners, on the same runs as plans whose stack was left out of the fit."""
    yield _column(_("planner"), "name")
    yield _column(_("runs"), "runs", count)
    yield _column(_("median"), "median", share)
    yield _column(_("p90"), "ninetieth", share)
    yield _column(_("a plan: median"), "own_median", share)
    yield _column(_("p90"), "own_ninetieth", share)


def verdicts(validation: Record) -> ReportTable:
    """What was predicted against what happened."""
    known = validation["memory"]["verdicts"]
    ran, failed, false_fits, refused = (known[name] for name in ("ran", "failed", "false_fits", "false_refusals"))
    notes = (
        _(
            "{share} of the runs that failed were predicted to fit; {refused} of those that ran were predicted not to"
        ).format(share=share(false_fits / failed), refused=share(refused / ran)),
        _("{count:,} of the layouts predicted to fit failed here and ran elsewhere").format(
            count=known["contradicted"]
        ),
    )
    return ReportTable(
        title=_("what fits: {count:,} layouts of nanotron").format(count=ran + failed),
        head=(_("predicted"), _("ran"), _("failed")),
        rows=(
            (_("fits"), count(ran - refused), count(false_fits)),
            (_("does not fit"), count(refused), count(failed - false_fits)),
        ),
        notes=notes,
    )


# --- serving ----------------------------------------------------------------------------------------------------------


def serving(validation: Record, *, brief: bool) -> ReportTable:
    """`brief` has the runs of all GPUs together."""
    main = tuple(SERVING_GROUPS)[:-1]
    columns = (
        _column(_("engine"), "engine"),
        _column(_("figure"), "metric", lambda metric: _(METRICS[metric])),
        _column(_("left out of the fit"), "group", _serving_group),
        _column(_("groups"), "groups", count),
        *_errors("rows", "p90"),
    )
    return table_of(
        columns,
        [accuracy for accuracy in validation["serving"] if not brief or accuracy["group"] in main],
        title=_("serving, by what was left out of the fit"),
        notes=[repeats_as_text(validation["first_token_repeats"])],
    )


def _serving_group(name: str) -> str:
    return _(SERVING_GROUPS[name]) if name in SERVING_GROUPS else name


def serving_groups(validation: Record) -> ReportTable:
    """Group by group: which model or GPU goes wrong."""
    head = (_("engine"), _("left out of the fit"), _("group"), _("runs"), *map(_, METRICS.values()))
    rows = tuple(
        (
            group["engine"],
            _serving_group(f"{group['situation']} left out"),
            clipped(group["name"], 40),
            count(group["rows"]),
            *(signed(group["bias"][metric]) if metric in group["bias"] else "-" for metric in METRICS),
        )
        for group in validation["serving_groups"]
    )
    title = _("serving: median error of each group that was left out")
    return ReportTable(title=title, head=head, rows=rows)


# --- the page ---------------------------------------------------------------------------------------------------------


def page_of(validation: Record) -> PageDocument:
    tables = every(validation, brief=False)
    shown = {name: named(name, table) for name, table in tables.items()}
    seen = _("Each point is a held-out run. On the line, prediction and measurement agree.")
    steps = Chart(name="steps_seen", data=figure(validation["step_points"], "s", 1.0), about=seen)
    memory = Chart(name="memory_seen", data=figure(validation["memory_points"], "GB", 1e9))
    serving = Chart(name="serving_seen", data=figure(validation["serving_points"], "ms", 1e-3), about=_("TPOT"))
    of_steps = ("left_out", "left_out_stacks", "peers", "steps", "stacks", "choices", "each_choice", "unmodelled")
    sections: tuple[tuple[str, str, tuple[PageBlock, ...]], ...] = (
        ("steps", capital(_("step time")), (steps, *(table for name in of_steps for table in shown[name]))),
        ("memory", capital(_("memory")), (memory, *shown["memory"], *shown["verdicts"])),
        ("serving", _("Serving"), (serving, *shown["serving"], *shown["serving_groups"])),
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


def _headline(validation: Record) -> str:
    return _(
        "Median error: step time {step} where the model was left out of the fit, peak memory {peak} on held-out runs."
    ).format(
        step=share(_left_out(validation, Situation.MODEL)["median"]),
        peak=share(validation["memory"]["peaks"][-1]["median"]),
    )


def _left_out(validation: Record, situation: Situation) -> Record:
    return next(accuracy for accuracy in validation["left_out"]["every"] if accuracy["situation"] == situation)


def _facts(validation: Record) -> list[Fact]:
    peaks, verdicts = validation["memory"]["peaks"][-1], validation["memory"]["verdicts"]
    new = _("step time, new {what}")
    errors = []
    for situation in (Situation.MODEL, Situation.GPU, Situation.STACK):
        step = _left_out(validation, situation)
        errors.append((new.format(what=_(LEFT_OUT[situation])), step["median"], step["ninetieth"]))
    errors.append((_("GPU memory"), peaks["median"], peaks["p90"]))
    wrong, lost = verdicts["false_fits"] / verdicts["failed"], validation["step"]["choice"]["median"]
    return [
        *(Fact(name=name, value=share(median), detail=f"p90 {share(p90)}") for name, median, p90 in errors),
        Fact(name=_("wrongly predicted to fit"), value=share(wrong)),
        Fact(name=_("layout choice"), value=share(lost), detail=_("median loss")),
    ]


def figure(scatters: Sequence[Record], unit: str, scale: float) -> dict[str, Any]:
    """Points by group, the largest group first so that small ones lie above it."""
    ordered = sorted(scatters, key=lambda scatter: -len(scatter["measured"]))
    return {"unit": unit, "groups": [_cloud(scatter, unit, scale) for scatter in ordered]}


def _cloud(scatter: Record, unit: str, scale: float) -> dict[str, Any]:
    points = [
        {
            "x": digits(measured / scale, 4),
            "y": digits(predicted / scale, 4),
            "text": _("{name}\nmeasured {measured:.4g} {unit}, predicted {predicted:.4g} {unit}").format(
                name=scatter["name"], measured=measured / scale, predicted=predicted / scale, unit=unit
            ),
        }
        for measured, predicted in zip(scatter["measured"], scatter["predicted"], strict=True)
    ]
    return {"name": scatter["name"], "points": points}
