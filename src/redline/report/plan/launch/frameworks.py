"""Frameworks that a layout can be written for."""

from __future__ import annotations

from importlib import import_module

from redline.errors import ParameterError
from redline.plan.train.search.training_plan import TrainingPlan
from redline.plan.train.training_choices import FRAMEWORKS
from redline.report.plan.launch.script import LaunchScript


def launch_script(plan: TrainingPlan, framework: str) -> LaunchScript:
    """The best layout of the plan in the words of a framework. Raises ParameterError where it has none for it."""
    if framework not in FRAMEWORKS:
        raise ParameterError("emit", f" {framework}: there is no such framework; there are: {', '.join(FRAMEWORKS)}")
    script: LaunchScript = import_module(f"redline.report.plan.launch.{framework}").launch_script(plan)
    return script
