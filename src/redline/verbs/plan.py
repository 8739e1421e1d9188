"""`redline plan`: what a job should cost before it runs, and which layout to run it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from redline.cost.train.plan import TrainingRequest, plan_training
from redline.cost.train.planned import TrainingPlan
from redline.hardware import catalogue
from redline.hardware.machine import Machine
from redline.hardware.profile import is_profile_path, load_profile
from redline.model.describe import changed, describe
from redline.model.known import read_model
from redline.model.model import Model
from redline.verbs.plan_trace import write_predicted_trace

__all__ = ["TrainingPlan", "TrainingRequest", "find_machine", "find_model", "plan_training", "write_predicted_trace"]


def find_model(source: str | None, **given: Any) -> Model:
    """The model of a known name or a config.json, with these numbers in the place of its own; or of numbers alone."""
    if source is None:
        return describe(**given)
    model = read_model(source)
    return changed(model, **given) if given else model


def find_machine(source: str) -> Machine:
    """The machine of a profile, or the one record of the catalogue that this name means."""
    return load_profile(Path(source)) if is_profile_path(source) else catalogue.find(source)
