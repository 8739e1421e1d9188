"""Plans as Python gets them: values that show themselves in notebooks, and save themselves as a page, JSON or trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from redline.plan.job import JobCost
from redline.plan.serve.serving_plan import ServingPlan
from redline.plan.train.search.plan import TrainingPlan
from redline.report.document import Document, PageDocument
from redline.report.notebook import html_of
from redline.report.plan import serving_messages, serving_report, validation_report
from redline.report.plan.amounts import gigabytes, seconds
from redline.report.plan.launch import engines, script
from redline.report.plan.layouts import as_text
from redline.report.plan.serving_report import page_of as page_of_serving
from redline.report.plan.train import training_messages, training_report
from redline.report.plan.validation_report import page_of as page_of_validation
from redline.report.shown_result import ShownResult
from redline.report.terminal import visible
from redline.report.text_parts import percent
from redline.storage import path_of


class ShownPlan(ShownResult):
    """A plan, for people and programs; as a file it is a page or its figures."""

    WHAT = "a plan"
    SAVED: ClassVar = {".html": "html", ".json": "json"}

    def brief(self) -> Document:
        """For a notebook."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        return html_of(self.brief())


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannedTraining(ShownPlan):
    """What a training job should cost."""

    plan: TrainingPlan
    """For the best number of GPUs."""
    job: JobCost | None
    """All steps together; None without a number of tokens."""
    sizes: tuple[TrainingPlan, ...]
    """One plan for each number of GPUs that can run it."""
    refused: tuple[tuple[int, str], ...] = ()
    """The others, and why none of their layouts can run."""

    def document(self, *, verbose: bool = False) -> Document:
        return training_report.document_of(self.plan, self.job, self.sizes, self.refused)

    def brief(self) -> Document:
        return training_report.brief_of(self.plan, self.job)

    def page(self) -> PageDocument:
        return training_report.page_of(self.plan, self.job, self.sizes)

    def record(self) -> dict[str, Any]:
        return training_report.record_of(self.plan, self.job, self.sizes)

    def save_trace(self, path: str | Path, *, force: bool = False) -> None:
        """The predicted step, for Perfetto and `redline.diagnose`; a name that ends in .json.gz is compressed."""
        from redline.plan.train.kernels import half_format
        from redline.plan.train.simulation.pipeline_messages import TYPES
        from redline.plan.train.simulation.predicted import predicted_step
        from redline.trace.perfetto import write_timelines

        plan, machine = self.plan, self.plan.machine
        drawn = "fp32" if plan.dtype == "tf32" else plan.dtype  # tensors are of 32 bits
        half = drawn if drawn in TYPES else half_format(machine)
        predicted = predicted_step(
            plan.step_costs,
            float(plan.best.step_s),
            plan.workload.drawing(plan.batch, plan.best.layout, plan.rates, plan.step_costs, dtype=drawn, half=half),
            device=machine.driver_names[0] if machine.driver_names else machine.name,
            memory_bytes=int(plan.device_bytes),
        )
        notes = tuple(predicted.notes(plan.devices))
        write_timelines(predicted.timelines, path_of(path), made_by="redline plan train", notes=notes, force=force)

    def launch_script(self, framework: str) -> str:
        """The best layout as a shell script: its launch arguments or config, and as comments what these cannot say."""
        return script.launch_script(self.plan, framework)

    def __repr__(self) -> str:
        """ "<plan of llama-3.1-8b on 64 H100 ...: dp 64, ZeRO-2, ...; step 7.294 s, 73.4 GB, MFU 46.8 %>"."""
        best = self.plan.best
        fits = "" if self.plan.fits else "nothing fits; smallest: "
        return visible(
            f"<plan of {training_messages.headline(self.plan)}: {fits}{as_text(best.layout, best.micro_batches)}; step "
            f"{seconds(best.step_s)}, {gigabytes(best.peak_bytes)}, MFU {percent(best.mfu)}>"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannedServing(ShownPlan):
    """What serving a model gives its users."""

    plan: ServingPlan

    def document(self, *, verbose: bool = False) -> Document:
        return serving_report.document_of(self.plan)

    def brief(self) -> Document:
        return serving_report.document_of(self.plan, brief=True)

    def page(self) -> PageDocument:
        return page_of_serving(self.plan)

    def record(self) -> dict[str, Any]:
        return serving_report.record_of(self.plan)

    def launch_script(self, engine: str) -> str:
        """The best way to serve as the command that starts an engine, with what it cannot say as comments."""
        return engines.launch_script(self.plan, engine)

    def __repr__(self) -> str:
        return visible(f"<plan of {serving_messages.headline(self.plan)}: {serving_messages.verdict(self.plan)}>")


@dataclass(frozen=True, kw_only=True, repr=False)
class ValidatedPlans(ShownPlan):
    """How well plans predict published measurements."""

    validation: validation_report.Record

    def document(self, *, verbose: bool = False) -> Document:
        return validation_report.document_of(self.validation)

    def brief(self) -> Document:
        return validation_report.document_of(self.validation, brief=True)

    def page(self) -> PageDocument:
        return page_of_validation(self.validation)

    def record(self) -> dict[str, Any]:
        return validation_report.record_of(self.validation)

    def __repr__(self) -> str:
        step, peak = self.validation["step"]["everything"], self.validation["memory"]["peaks"][-1]
        return (
            f"<plans against measurements: step time {percent(step['median'])} in the median of {step['runs']:,} "
            f"runs, memory {percent(peak['median'])} of {peak['rows']:,}>"
        )
