"""A training job on several numbers of GPUs: a plan for each, and which to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from redline.errors import UsageError
from redline.planner.train.search.constraints import refuse_impossible
from redline.planner.train.search.plan import TrainingRequest, plan_training
from redline.planner.train.search.training_plan import TrainingPlan
from redline.planner.train.training_choices import BY
from redline.progress import Progress, ProgressStage, silent


@dataclass(frozen=True, kw_only=True)
class Sized:
    """A plan for each size that can run, and the best of them."""

    plans: tuple[TrainingPlan, ...]
    refused: tuple[tuple[int, str], ...]
    """Sizes on which no layout can run, and why."""
    chosen: TrainingPlan


def plan_sizes(
    request: TrainingRequest, sizes: Sequence[int], *, by: str = BY[0], progress: Progress = silent
) -> Sized:
    """By speed the size that trains fastest, by cost the one that needs the least GPU time per token."""
    plans, refused = [], []
    for number, devices in enumerate(sizes):

        def tell(stage: ProgressStage, done: float, total: float, number: int = number) -> None:
            progress(stage, number + done / total, len(sizes))

        training_request = replace(request, devices=devices, by="memory" if by == "memory" else "speed")
        try:
            refuse_impossible(training_request)
            plans.append(plan_training(training_request, tell))
        except UsageError as error:
            if len(sizes) == 1:
                raise
            refused.append((devices, str(error).partition("\n")[0]))
    if not plans:
        raise UsageError(f"no layout can run on any of these numbers of GPUs: {refused[0][1]}")
    return Sized(plans=tuple(plans), refused=tuple(refused), chosen=max(plans, key=lambda plan: _merit(plan, by)))


def _merit(plan: TrainingPlan, by: str) -> tuple[bool, float]:
    """What fits comes before what does not."""
    merits = {
        "speed": plan.best.tokens_per_s,
        "cost": plan.best.tokens_per_s / plan.devices,
        "memory": -plan.best.peak_bytes,
    }
    return plan.fits, merits[by]
