"""A plan of serving as one HTML file that needs nothing else."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from redline.plan.serve.serving_plan import Ranged, ServingPlan, ServingPoint
from redline.report.document import Fact, ReportTable
from redline.report.html.frame import frame, template
from redline.report.html.tables import sorted_table, table_text
from redline.report.language import _
from redline.report.plan.amounts import count, gigabytes, seconds
from redline.report.plan.serve import serving_messages as say
from redline.report.plan.serve import tables
from redline.report.text_parts import interval


@dataclass(frozen=True, kw_only=True)
class LoadPoint:
    """One load: what a user gets (x) and what a GPU gives (y)."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One size and format, from few requests to many."""

    name: str
    points: list[LoadPoint]


def render(plan: ServingPlan) -> str:
    shown = dict(_tables(plan))
    words = {"user_speed": _("tokens per second of one user"), "device_speed": _("tokens per second and GPU")}
    return template("plan/serve.html.j2").render(
        **frame(
            say.headline(plan),
            charts={"serving": {"curves": [asdict(curve) for curve in curves(plan)]}} if plan.points else {},
            tables={name: asdict(sorted_table(table)) for name, table in shown.items()},
            words={**table_text(), **words},
            drawers=["plan/charts.js"],
        ),
        headline=say.verdict(plan),
        second=say.headline(plan),
        known=say.known(plan),
        facts=[] if plan.best is None else list(_facts(plan, plan.best)),
        about=list(say.facts(plan)),
        refused=list(say.refused(plan)),
        trust=list(say.trust(plan)),
    )


def _facts(plan: ServingPlan, best: ServingPoint) -> Iterator[Fact]:
    yield Fact(name=_("TTFT"), value=seconds(best.ttft_s.value), detail=_interval(best.ttft_s))
    yield Fact(name=_("TPOT"), value=seconds(best.tpot_s.value), detail=_interval(best.tpot_s))
    yield Fact(name=_("tokens/s/user"), value=count(best.tokens_per_s_user), detail="")
    yield Fact(name=_("tokens/s/GPU"), value=count(best.tokens_per_s_device), detail="")
    used = gigabytes(best.weights_bytes + best.cache_bytes)
    yield Fact(name=_("GPU memory"), value=used, detail=_("of {size}").format(size=gigabytes(plan.device_bytes)))
    cost = plan.cost_per_million(best)
    if cost is not None:
        yield Fact(name=_("per million"), value=f"{cost:.3g}", detail=_("output tokens"))
    else:
        yield Fact(name=_("KV capacity"), value=f"{best.most:,.0f}", detail=_("sequences"))


def _interval(figure: Ranged) -> str:
    if figure.low is None or figure.high is None:
        return _("error not known")
    return _("80 % interval: {interval}").format(interval=interval(seconds(figure.low), seconds(figure.high)))


def _tables(plan: ServingPlan) -> Iterator[tuple[str, ReportTable]]:
    """Those that have rows."""
    made = {
        "passes": tables.passes(plan),
        "frontier": tables.frontier(plan, brief=False),
        "every": tables.every(plan),
    }
    yield from ((name, table) for name, table in made.items() if table.rows)


def curves(plan: ServingPlan) -> list[Curve]:
    """Of each size and format that fits."""
    groups: dict[str, list[LoadPoint]] = {}
    for serving_point in plan.points:
        text = _("{way}\nTTFT {first}, TPOT {each}\n{user} tokens/s per user, {gpu} per GPU").format(
            way=say.way(serving_point),
            first=seconds(serving_point.ttft_s.value),
            each=seconds(serving_point.tpot_s.value),
            user=count(serving_point.tokens_per_s_user),
            gpu=count(serving_point.tokens_per_s_device),
        )
        point = LoadPoint(
            x=_digits(serving_point.tokens_per_s_user), y=_digits(serving_point.tokens_per_s_device), text=text
        )
        groups.setdefault(f"{say.size(serving_point)}, {serving_point.dtype}", []).append(point)
    return [Curve(name=name, points=points) for name, points in groups.items()]


def _digits(value: float) -> float:
    """Five are more than a chart can show."""
    return float(f"{value:.5g}")
