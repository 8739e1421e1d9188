"""A plan of serving as a document and as JSON; docs/reference/plan.md describes every field."""

from typing import Any

from redline.plan.serve.measured_engine import MeasuredEngine
from redline.plan.serve.serving_plan import ServingPlan, ServingPoint
from redline.report.data import enveloped
from redline.report.display import Style, styled
from redline.report.document import Document, Heading, Items, LabelledLines
from redline.report.language import _
from redline.report.plan.amounts import figures, plain
from redline.report.plan.serve import serving_messages as say
from redline.report.plan.serve import tables

_LABEL_WIDTH = 13
_PARTS = ("compute_s", "memory_s", "communication_s", "overhead_s")


def document_of(plan: ServingPlan, *, brief: bool = False) -> Document:
    """`brief` is for a notebook."""
    label, style = (_("best"), Style.GOOD) if plan.best is not None else (_("verdict"), Style.LIMIT)
    lines = ((label, styled(say.verdict(plan), style)), *say.facts(plan))
    refused = () if brief else tuple(say.refused(plan))
    return Document(
        blocks=(
            (Heading(text=say.headline(plan)), LabelledLines(lines=lines, width=_LABEL_WIDTH)),
            tables.passes(plan),
            *([tables.frontier(plan, brief=True)] if plan.points else []),
            Items(title=_("what does not fit"), items=refused, mark="  - "),
            Items(title=_("how far to trust this"), items=tuple(say.trust(plan)), mark="  - "),
        )
    )


def record_of(plan: ServingPlan) -> dict[str, Any]:
    record = {
        "model": plan.model.name,
        "machine": plan.machine.name,
        **figures(plan, "parameters active_parameters device_bytes engine measured_here situation cache_dtype prompt"),
        **figures(plan, "output devices price most_ttft_s most_tpot_s evidence repeats"),
        "measured": None if plan.measured is None else _measured(plan.measured),
        "best": None if plan.best is None else _point(plan, plan.best),
        "frontier": [_point(plan, point) for point in plan.frontier],
        "points": [_point(plan, point) for point in plan.points],
        "refused": [{"tp": tp, "dtype": dtype, "weights_bytes": plain(size)} for tp, dtype, size in plan.refused],
    }
    # Synthetic: everything in a plan is predicted, nothing measured.
    return enveloped("serving-plan", 1, "redline plan serve", record, synthetic=True)


def _measured(engine: MeasuredEngine) -> dict[str, Any]:
    told = figures(engine.step, "steps batch context model_s around_s peak_share")
    return {"model": engine.step.model.name, **told, **figures(engine, "roof_s")}


def _point(plan: ServingPlan, point: ServingPoint) -> dict[str, Any]:
    return {
        **plain(point),
        "step_s": dict(zip(_PARTS, plain(point.step_s), strict=True)),
        "prompt_s": dict(zip(_PARTS, plain(point.prompt_s), strict=True)),
        **figures(point, "tokens_per_s_device tokens_per_s_user"),
        "cost_per_million": plain(plan.cost_per_million(point)),
        "limit": point.step_limit.name.lower(),
    }
