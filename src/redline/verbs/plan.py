"""`redline plan`: what a job should cost before it runs, and which layout to run it on."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from redline.errors import UsageError
from redline.model.describe import changed, describe
from redline.model.known import read_model
from redline.model.model import Model
from redline.planner.train.search.plan import TrainingRequest
from redline.planner.train.search.subject import Subject, usual_stack
from redline.verbs.plan_trace import write_predicted_trace

__all__ = ["TrainingRequest", "find_model", "find_subject", "is_module", "usual_stack", "write_predicted_trace"]


def find_model(source: str | None, **given: Any) -> Model:
    """The model of a known name or a config.json, with these numbers in the place of its own; or of numbers alone."""
    if source is None:
        return describe(**given)
    model = read_model(source)
    return changed(model, **given) if given else model


def find_subject(source: str | None, **given: Any) -> Subject:
    """A model, or the module that FILE.py:FUNCTION builds, counted on shapes alone."""
    if source is None or not is_module(source):
        return find_model(source, **given)
    if given:
        name = next(iter(given)).replace("_", "-")
        raise UsageError(f"{source} builds the module itself, so --{name} changes nothing; leave it out")
    if find_spec("torch") is None:
        raise UsageError(f"{source}: torch is not installed here; install it as your machine needs it (pytorch.org)")
    from redline.probes.module import count_module

    return count_module(source)


def is_module(source: str) -> bool:
    """Also where its function is missing, so that this is what is said about it."""
    return source.endswith(".py") or source.rpartition(":")[0].endswith(".py")
