"""Plans as Python gets them: values that show themselves in notebooks, and save themselves as a page, JSON or trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from redline.artifacts import write_atomic
from redline.errors import UsageError
from redline.plan.job.job_cost import JobCost
from redline.plan.serve.serving_plan import ServingPlan
from redline.plan.train.search.training_plan import TrainingPlan
from redline.plan.validation import Validation
from redline.storage import path_of


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannedTraining:
    """What a training job should cost."""

    plan: TrainingPlan
    """For the best number of GPUs."""
    job: JobCost | None
    """All steps together; None without a number of tokens."""
    sizes: tuple[TrainingPlan, ...]
    """One plan for each number of GPUs that can run it."""
    refused: tuple[tuple[int, str], ...] = ()
    """The others, and why none of their layouts can run."""

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """A page where the name ends in .html, the figures where it ends in .json."""
        from redline.report.html.plan.train import page
        from redline.report.plan.train import json

        if _ending(path) == ".html":
            _write(path, page.render(self.plan, self.job, sizes=self.sizes), force=force)
        else:
            _write(path, json.render(self.plan, self.job, sizes=self.sizes), force=force)

    def save_trace(self, path: str | Path, *, force: bool = False) -> None:
        """The predicted step, for Perfetto and `redline.diagnose`; a name that ends in .json.gz is compressed."""
        from redline.verbs.plan_trace import write_predicted_trace

        write_predicted_trace(self.plan, path, force=force)

    def launch_script(self, framework: str) -> str:
        """The best layout as a shell script: its launch arguments or config, and as comments what these cannot say."""
        from redline.report.plan.launch.frameworks import launch_script
        from redline.report.plan.launch.script import render

        return render(launch_script(self.plan, framework))

    def __repr__(self) -> str:
        from redline.report.plan.notebook import train_line

        return train_line(self.plan)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from redline.report.plan import notebook

        return notebook.train(self.plan, self.job)


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannedServing:
    """What serving a model gives its users."""

    plan: ServingPlan

    def launch_script(self, engine: str) -> str:
        """The best way to serve as the command that starts an engine, with what it cannot say as comments."""
        from redline.report.plan.launch.engines import launch_script
        from redline.report.plan.launch.script import render

        return render(launch_script(self.plan, engine))

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """A page where the name ends in .html, the figures where it ends in .json."""
        from redline.report.html.plan.serve import page
        from redline.report.plan.serve import json

        text = page.render(self.plan) if _ending(path) == ".html" else json.render(self.plan)
        _write(path, text, force=force)

    def __repr__(self) -> str:
        from redline.report.plan.notebook import serve_line

        return serve_line(self.plan)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from redline.report.plan import notebook

        return notebook.serve(self.plan)


@dataclass(frozen=True, kw_only=True, repr=False)
class ValidatedPlans:
    """How well plans predict published measurements."""

    validation: Validation

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """A page where the name ends in .html, the figures where it ends in .json."""
        from redline.report.html.plan.validate import page
        from redline.report.plan.validate import json

        text = page.render(self.validation) if _ending(path) == ".html" else json.render(self.validation)
        _write(path, text, force=force)

    def __repr__(self) -> str:
        from redline.report.plan.notebook import validation_line

        return validation_line(self.validation)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from redline.report.plan import notebook

        return notebook.validation(self.validation)


def _ending(path: str | Path) -> str:
    ending = path_of(path).suffix
    if ending not in (".html", ".json"):
        raise UsageError(f"{path}: a plan is saved as a page or as figures; give a name that ends in .html or .json")
    return ending


def _write(path: str | Path, text: str, *, force: bool) -> None:
    with write_atomic(path_of(path), force=force) as file:
        file.write(text.encode())
