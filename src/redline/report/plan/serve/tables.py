"""The tables of a plan of serving, as cells."""

from collections.abc import Callable, Sequence

from redline.plan.serve.forward_passes import ServingLimit
from redline.plan.serve.serving_plan import ServingPlan, ServingPoint
from redline.report.document import ReportTable
from redline.report.language import _, marked
from redline.report.plan.amounts import count, gigabytes, seconds
from redline.report.plan.serve import serving_messages as say


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
