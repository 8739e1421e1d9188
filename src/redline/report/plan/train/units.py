"""What a plan counts, in words: tokens, or samples of a module of the user's own."""

from redline.plan.train.search.training_plan import TrainingPlan
from redline.report.language import _


def counts_samples(plan: TrainingPlan) -> bool:
    return plan.unit == "samples"


def per_second(plan: TrainingPlan) -> str:
    return _("samples/s") if counts_samples(plan) else _("tokens/s")


def per_second_and_gpu(plan: TrainingPlan) -> str:
    return _("samples/s/GPU") if counts_samples(plan) else _("tokens/s/GPU")


def speed_axis(plan: TrainingPlan) -> str:
    return _("samples per second and GPU") if counts_samples(plan) else _("tokens per second and GPU")
