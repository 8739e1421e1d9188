"""A plan of serving as a document, as JSON, as tables and as a page; docs/reference/plan.md describes every field."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from redline.plan.serve.forward_passes import MeasuredEngine, ServingLimit
from redline.plan.serve.serving_plan import Ranged, ServingPlan, ServingPoint
from redline.report.data import enveloped
from redline.report.display import Style, styled
from redline.report.document import (
    Chart,
    Document,
    Fact,
    Heading,
    Items,
    LabelledLines,
    PageBlock,
    PageDocument,
    ReportTable,
    Section,
    capital,
    named,
)
from redline.report.language import _, marked
from redline.report.plan import serving_messages as say
from redline.report.plan.amounts import count, digits, figures, gigabytes, plain, seconds
from redline.report.text_parts import interval

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
            passes(plan),
            *([frontier(plan, brief=True)] if plan.points else []),
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


# --- tables -----------------------------------------------------------------------------------------------------------


def passes(plan: ServingPlan) -> ReportTable:
    """What the passes of the best way consist of."""
    head = (_("forward pass"), *(_(say.LIMITS[limit]) for limit in ServingLimit), _("total"), _("limited by"))
    rows: list[tuple[str, ...]] = []
    if plan.best is not None:
        rows = [
            _pass_row(_("prefill of one prompt"), plan.best.prompt_s, plan.best.prompt_limit),
            _pass_row(_("decode step"), plan.best.step_s, plan.best.step_limit),
        ]
    return ReportTable(title=_("time of a single forward pass"), head=head, rows=tuple(rows))


def _pass_row(name: str, parts: Sequence[float], limit: ServingLimit) -> tuple[str, ...]:
    return (name, *(seconds(part) if part else "-" for part in parts), seconds(sum(parts)), _(say.LIMITS[limit]))


def points(plan: ServingPlan, serving_points: Sequence[ServingPoint], title: str, *, brief: bool) -> ReportTable:
    """Ways to serve, with what a user and a GPU get. `brief` is narrow enough for a terminal."""
    columns = [name for name in _columns(plan) if not brief or name not in _WIDE]
    rows = tuple(tuple(_columns(plan)[name](serving_point) for name in columns) for serving_point in serving_points)
    notes = [_("per user, per GPU: output tokens per second; limited by: what takes most of a decode step")]
    if any(serving_point.attention_dp > 1 for serving_point in serving_points):
        notes.append(_("ep 8, dp 8: experts are split over 8 GPUs, attention is replicated on each"))
    if any(not serving_point.meets for serving_point in serving_points):
        notes.append(_("*: misses a limit"))
    return ReportTable(title=title, head=tuple(map(_, columns)), rows=rows, notes=tuple(notes))


_WIDE = (marked("batch"), marked("KV capacity"), marked("GPU memory"))


def _columns(plan: ServingPlan) -> dict[str, Callable[[ServingPoint], str]]:
    """By head."""
    columns: dict[str, Callable[[ServingPoint], str]] = {
        marked("replica"): _size,
        marked("format"): lambda point: point.dtype,
        marked("concurrency"): lambda point: f"{point.concurrency:,}" if point.meets else f"{point.concurrency:,}*",
        _WIDE[0]: lambda point: f"{point.batch:,.0f}",
        _WIDE[1]: lambda point: f"{point.most:,.0f}",
        marked("TTFT"): lambda point: seconds(point.ttft_s.value),
        marked("TPOT"): lambda point: seconds(point.tpot_s.value),
        marked("per user"): lambda point: count(point.tokens_per_s_user),
        marked("per GPU"): lambda point: count(point.tokens_per_s_device),
        _WIDE[2]: lambda point: gigabytes(point.weights_bytes + point.cache_bytes),
    }
    if plan.price is not None:
        columns[marked("per million")] = lambda point: f"{plan.cost_per_million(point):.3g}"
    columns[marked("limited by")] = lambda point: _(say.LIMITS[point.step_limit])
    return columns


def _size(serving_point: ServingPoint) -> str:
    return (
        f"tp {serving_point.tp}"
        if serving_point.attention_dp == 1
        else f"ep {serving_point.tp}, dp {serving_point.attention_dp}"
    )


def frontier(plan: ServingPlan, *, brief: bool) -> ReportTable:
    title = _("Pareto frontier of speed per user and throughput per GPU")
    return points(plan, plan.frontier, title, brief=brief)


def every(plan: ServingPlan) -> ReportTable:
    return points(plan, plan.points, _("all configurations that fit"), brief=False)


# --- the page ---------------------------------------------------------------------------------------------------------


def page_of(plan: ServingPlan) -> PageDocument:
    return PageDocument(
        title=say.headline(plan),
        headline=say.verdict(plan),
        said=(say.headline(plan), say.known(plan)),
        caution=_("Predicted, not measured."),
        facts=() if plan.best is None else tuple(_facts(plan, plan.best)),
        sections=tuple(_sections(plan)),
        drawers=("plan_charts.js",),
        words={
            "user_speed": _("tokens/s/user"),
            "device_speed": _("{unit}/s/GPU").format(unit=_("tokens")),
        },
    )


def _sections(plan: ServingPlan) -> Iterator[Section]:
    about = _(
        "Each line is a size and a format, from 1 concurrent request at the right to many at the left. Up and to the "
        "right is better."
    )
    chart = Chart(name="serving", data={"curves": curves(plan)}, about=about)
    best = named("frontier", frontier(plan, brief=False))
    refused = tuple(say.refused(plan))
    shown: tuple[tuple[str, str, tuple[PageBlock, ...]], ...] = (
        ("frontier", _("Frontier"), (chart, *best) if plan.points else ()),
        ("passes", _("forward pass"), named("passes", passes(plan))),
        ("every", _("All configurations"), named("every", every(plan))),
        ("refused", _("what does not fit"), (Items(items=refused),) if refused else ()),
        ("trust", _("how far to trust this"), (Items(items=tuple(say.trust(plan))),)),
        ("about", _("What was planned"), (LabelledLines(lines=tuple(say.facts(plan))),)),
    )
    for name, title, blocks in shown:
        yield Section(name=name, link=capital(title), title=capital(title), blocks=blocks)


def _facts(plan: ServingPlan, best: ServingPoint) -> Iterator[Fact]:
    yield Fact(name=_("TTFT"), value=seconds(best.ttft_s.value), detail=_interval(best.ttft_s))
    yield Fact(name=_("TPOT"), value=seconds(best.tpot_s.value), detail=_interval(best.tpot_s))
    yield Fact(name=_("tokens/s/user"), value=count(best.tokens_per_s_user), detail="")
    yield Fact(name=_("{unit}/s/GPU").format(unit=_("tokens")), value=count(best.tokens_per_s_device), detail="")
    used = gigabytes(best.weights_bytes + best.cache_bytes)
    yield Fact(name=_("GPU memory"), value=used, detail=_("of {size}").format(size=gigabytes(plan.device_bytes)))
    cost = plan.cost_per_million(best)
    if cost is not None:
        yield Fact(name=_("per million"), value=f"{cost:.3g}", detail=_("output tokens"))
    else:
        yield Fact(name=_("KV capacity"), value=f"{best.most:,.0f}", detail=_("sequences"))


def _interval(figure: Ranged) -> str:
    if figure.low is None or figure.high is None:
        return say.unscored()
    return _("80 % interval: {interval}").format(interval=interval(seconds(figure.low), seconds(figure.high)))


def curves(plan: ServingPlan) -> list[dict[str, Any]]:
    """Of each size and format that fits, from few requests to many: what a user gets (x) and what a GPU gives (y)."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for point in plan.points:
        text = _("{way}\nTTFT {first}, TPOT {each}\n{user} tokens/s per user, {gpu} per GPU").format(
            way=say.way(point),
            first=seconds(point.ttft_s.value),
            each=seconds(point.tpot_s.value),
            user=count(point.tokens_per_s_user),
            gpu=count(point.tokens_per_s_device),
        )
        drawn = {"x": digits(point.tokens_per_s_user), "y": digits(point.tokens_per_s_device), "text": text}
        groups.setdefault(f"{say.size(point)}, {point.dtype}", []).append(drawn)
    return [{"name": name, "points": points} for name, points in groups.items()]
