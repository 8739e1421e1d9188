"""The accuracy of plans as one HTML file that needs nothing else."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from redline.plan.train.search.plan_trust import Situation
from redline.plan.validation import LeftOutAccuracy, Scatter, Validation
from redline.report.document import Fact
from redline.report.html.frame import frame, template
from redline.report.html.tables import sorted_table, table_text
from redline.report.language import _
from redline.report.plan.validate import tables, validation_report


def render(validation: Validation) -> str:
    shown = tables.every(validation, brief=False)
    words = {
        "measured": _("measured"),
        "predicted": _("predicted"),
        "equal": _("as measured"),
        "within": _("within 25 %"),
    }
    return template("plan/validate.html.j2").render(
        **frame(
            _("How well plans predict"),
            charts={
                "steps_seen": figure(validation.step_points, "s", 1.0),
                "memory_seen": figure(validation.memory_points, "GB", 1e9),
                "serving_seen": figure(validation.serving_points, "ms", 1e-3),
            },
            tables={name: asdict(sorted_table(table)) for name, table in shown.items()},
            words={**table_text(), **words},
            drawers=["plan/charts.js"],
        ),
        titles={name: table.title for name, table in shown.items()},
        headline=_headline(validation),
        second=validation_report.headline(validation),
        third=validation_report.split(validation),
        facts=list(_facts(validation)),
    )


def _headline(validation: Validation) -> str:
    said = _(
        "Median error: step time {step} where the model was left out of the fit, peak memory {peak} on held-out runs."
    )
    return said.format(
        step=tables.share(_left_out(validation, Situation.MODEL).median),
        peak=tables.share(validation.memory.peaks[-1].median),
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
            Fact(name=name, value=tables.share(step.median), detail=below.format(share=tables.share(step.ninetieth)))
            for name, step in steps.items()
        ),
        Fact(name=_("GPU memory"), value=tables.share(peaks.median),
             detail=below.format(share=tables.share(peaks.p90))),
        Fact(name=_("wrongly predicted to fit"), value=tables.share(verdicts.false_fits / verdicts.failed), detail=""),
        Fact(name=_("layout choice"), value=tables.share(validation.step.choice.median), detail=lost),
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
