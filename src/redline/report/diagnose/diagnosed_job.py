"""A job, diagnosed: all that the renderers of `diagnose` show, and no renderer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from redline.capture.captured import Captured
from redline.findings.finding import Findings
from redline.job.read_failures import Failure
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import Outline

if TYPE_CHECKING:
    from redline.findings.replayed import ReplayedJob
    from redline.ledger.rank.step_view import StepView
    from redline.report.redaction.redactor import Removed
    from redline.serving.diagnose_serving import ServingDiagnosis


@dataclass(frozen=True, kw_only=True, repr=False)
class DiagnosedJob:
    """The diagnosis of a job, its outline, and the files that could not be read."""

    diagnosis: Diagnosis
    outline: Outline
    findings: Findings
    failures: tuple[Failure, ...]
    step_view: "StepView | None" = None  # a usual step; None where it was not asked for or its trace is not at hand
    removed: "tuple[Removed, ...] | None" = None  # by redaction; None where nothing was looked for
    serving: "ServingDiagnosis | None" = None  # of the engine whose run the traces are of; None where there is none
    replayed: "ReplayedJob | None" = None  # what-ifs and forecasts; None where none were asked for
    saved: tuple[str, ...] = ()  # traces of the what-if, where they were asked for
    captured: Captured | None = None  # what the record of `redline run` says of these steps; None where there is none

    @property
    def about(self) -> str:
        """Which ranks it is about, where files could not be read; "" where all could."""
        from redline.report.text_parts import about_some_ranks  # as are all words: when they are said

        return about_some_ranks(len(self.diagnosis.ranks), self.diagnosis.world_size, self.failures)

    @property
    def on_cpu(self) -> bool:
        return all(rank.facts.device == "cpu" for rank in self.diagnosis.ranks)
