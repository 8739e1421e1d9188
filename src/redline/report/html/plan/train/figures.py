"""The data of each chart of a training plan as plain values. How they are drawn is the business of charts.js."""

from collections.abc import Sequence
from dataclasses import dataclass

from redline.plan.train.search.training_plan import Candidate, TrainingPlan
from redline.report.language import _
from redline.report.plan import layouts
from redline.report.plan.amounts import chance, count, gigabytes, seconds
from redline.report.plan.train import units

# Which colour of style.css each part has; names of accounts where they are alike.
COLOURS = {
    "compute": "compute", "recompute": "kernel-loss", "host": "host", "head": "memory", "tensor": "transfer",
    "context": "transfer", "expert": "transfer", "pipeline": "peer-wait", "bubble": "queue", "gather": "copy",
    "reduce": "copy", "optimizer": "sync", "offload": "input", "weights": "math", "gradients": "copy",
    "activations": "compute", "gathers": "peer-wait", "temporaries": "queue",
    "communicators": "transfer", "allocator": "other",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LayoutPoint:
    """One layout by what it needs and what it gives, with the interval of both."""

    x: float
    x_low: float
    x_high: float
    y: float
    y_low: float
    y_high: float
    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class FrontierFigure:
    """Layouts by memory (GB) and speed (tokens per second and GPU)."""

    frontier: list[LayoutPoint]
    others: list[LayoutPoint]
    """That were ranked, and have a better one beside them."""
    best: LayoutPoint
    device: float
    device_name: str


def frontier_figure(plan: TrainingPlan) -> FrontierFigure | None:
    """None where there is nothing to choose from."""
    if len({id(candidate) for candidate in (*plan.frontier, *plan.ranked)}) < 2:
        return None
    on_frontier = [candidate.layout for candidate in plan.frontier]
    return FrontierFigure(
        frontier=_points(plan, plan.frontier),
        others=_points(plan, [candidate for candidate in plan.ranked if candidate.layout not in on_frontier]),
        best=_point(plan, plan.best),
        device=_digits(plan.device_bytes / 1e9),
        device_name=_("memory of a GPU, {size}").format(size=gigabytes(plan.device_bytes)),
    )


def _points(plan: TrainingPlan, candidates: Sequence[Candidate]) -> list[LayoutPoint]:
    return [_point(plan, candidate) for candidate in candidates]


def _point(plan: TrainingPlan, candidate: Candidate) -> LayoutPoint:
    tokens = plan.tokens_per_step / plan.devices
    text = _("{layout}\nstep {step}, {speed} {unit}\n{memory}, OOM probability {chance}").format(
        layout=layouts.as_text(candidate.layout, candidate.micro_batches),
        step=seconds(candidate.step_s),
        speed=count(tokens / candidate.step_s),
        unit=units.per_second_and_gpu(plan),
        memory=gigabytes(candidate.peak_bytes),
        chance=chance(candidate.chance),
    )
    return LayoutPoint(
        x=_digits(candidate.peak_bytes / 1e9),
        x_low=_digits(candidate.peak_low_bytes / 1e9),
        x_high=_digits(candidate.peak_high_bytes / 1e9),
        y=_digits(tokens / candidate.step_s),
        y_low=_digits(tokens / candidate.step_high_s),
        y_high=_digits(tokens / candidate.step_low_s),
        name=layouts.in_brief(candidate.layout),
        text=text,
    )


def _digits(value: float) -> float:
    """Five are more than a chart can show."""
    return float(f"{value:.5g}")
