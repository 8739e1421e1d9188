"""`redline.tune`: find the levers that make an unchanged script faster, and prove each of them."""

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from redline.artifacts import write_atomic
from redline.capture.levers import parse_lever
from redline.capture.supervisor.environment import processor_name
from redline.capture.supervisor.trial_command import TrialCommand
from redline.errors import InputError, UsageError
from redline.findings.finding import Findings
from redline.report.diagnose.finding_messages import verdict_sentence
from redline.report.tune.tune_report import TuneReport
from redline.storage import path_of_this_machine
from redline.tuning.candidates import Consent, LeverCandidate, TunedJob, candidates_of
from redline.tuning.captured_job import CapturedJob, capture_job
from redline.tuning.measurements import TrialMeasurements, TuneOptions
from redline.tuning.script_diff import ScriptDiff, script_diff
from redline.tuning.search import Goal, search
from redline.tuning.trial_folder import Question, TrialFolder
from redline.tuning.tune_result import Objective, Rejected, Rung, TuneResult
from redline.tuning.tuned_file import NAME, write_tuned
from redline.verbs.compare_programs import Program, command_of
from redline.verbs.diagnose import diagnose

FOLDER = "redline-tune"
PATCH = "tuned.diff"
_CAPTURE_S = 600.0


class TuneWatcher(Protocol):
    """Who is told while a search goes on, and asked before it begins."""

    def planned(self, step_s: float, candidates: Sequence[LeverCandidate], wrote: Sequence[str]) -> bool:
        """Whether to go on with these candidates, and though the script writes these files outside of its folder."""

    def asked(self, question: Question) -> None:
        """This is going to be measured."""

    def told(self, outcome: Rung | Rejected) -> None:
        """This was found."""


@dataclass(frozen=True, kw_only=True)
class _Diagnosed:
    """A run that was captured, and what limits it."""

    job: CapturedJob
    findings: Findings
    limiting: str


def tune(
    program: Program,
    *,
    options: TuneOptions | None = None,
    consent: Consent | None = None,
    goal: Goal | None = None,
    record: str | Path | None = None,
    watcher: TuneWatcher | None = None,
) -> TuneReport:
    """Try levers on a program, unchanged, and keep those that make it faster while its numbers stay right.

    A program is a command line, or its words. Every trial is kept in the folder `record`; a search that was ended goes
    on from there. The program runs many times, in a folder of its own that looks like the current one; one that writes
    to files of the user is stopped before it does, unless the options allow it.
    """
    chosen = options or TuneOptions()
    agreed, wanted = consent or Consent(), goal or Goal()
    command = command_of(program)
    if command.python is None:
        raise UsageError(f"tune: levers need a Python program: {command.why_unwatched}")
    listener = watcher or _Silent()
    place = path_of_this_machine(record or _folder_name(command), "tune: the record of a search")
    folder = TrialFolder(place, _identity(command))
    measure = TrialMeasurements(command, folder, chosen, listener.asked)
    start = measure.start()
    before = _diagnosed(command, folder.path / "start", chosen)
    candidates = _candidates(before, agreed)
    if not listener.planned(start.step_s, candidates[wanted.objective], before.job.wrote_elsewhere):
        raise InputError("tune: nothing was tried, as was asked for")
    ladder = search(measure, candidates, agreed, wanted, listener.told)
    now, diff, written = before.limiting, None, []
    if ladder.levers:
        write_tuned(folder.path / NAME, str(command), ladder)
        written.append(str(folder.path / NAME))
        diff = script_diff([parse_lever(lever) for lever in ladder.levers], before.job.places, command.folder)
        if diff.patch:
            written.append(_write_patch(folder.path / PATCH, diff))
        now = _diagnosed(command_of(program, ladder.levers), folder.path / "tuned", chosen).limiting
    result = TuneResult(
        command=str(command),
        objective=wanted.objective,
        ladder=ladder,
        start_step_s=start.step_s,
        start_peak_bytes=start.peak_bytes,
        spent_s=measure.spent_s,
        budget_s=chosen.budget_s,
        folder=folder.path,
        memory_limit_bytes=wanted.memory_limit_bytes,
        limiting_before=before.limiting,
        limiting_now=now,
        written=tuple(written),
        diff=diff,
    )
    return TuneReport(result=result)


def _write_patch(path: Path, diff: ScriptDiff) -> str:
    with write_atomic(path, force=True) as file:
        file.write(diff.patch.encode(errors="surrogateescape"))
    return str(path)


def _folder_name(command: TrialCommand) -> Path:
    script = Path(command.python.script).stem if command.python else ""
    return Path(FOLDER) / (re.sub(r"[^\w.-]", "_", script) or "program")


def _identity(command: TrialCommand) -> dict[str, object]:
    """What is measured of one says nothing of another."""
    return {
        "command": str(command),
        "machine": f"{processor_name() or platform.machine()}, {len(os.sched_getaffinity(0))} cores",
    }


def _diagnosed(command: TrialCommand, folder: Path, options: TuneOptions) -> _Diagnosed:
    job = capture_job(command, folder, _CAPTURE_S, allow_writes=options.allow_writes)
    if not job.traces:
        raise InputError(f"{command.with_levers}: it ended before its steps could be captured; let it take more steps")
    result = diagnose(job.traces)
    limiting = verdict_sentence(result.findings.verdict, result.findings.findings, result.outline)
    return _Diagnosed(job=job, findings=result.findings, limiting=limiting)


def _candidates(before: _Diagnosed, consent: Consent) -> dict[Objective, list[LeverCandidate]]:
    shares = {finding.code: finding.alone_share for finding in before.findings.findings}
    job = TunedJob(
        shares=shares,
        ranks=before.job.ranks,
        has_accelerator=before.job.has_accelerator,
        loader_share=before.job.loader_share,
    )
    return {objective: candidates_of(job, consent, for_memory=objective is Objective.MEMORY) for objective in Objective}


class _Silent:
    """Where nobody looks."""

    def planned(self, step_s: float, candidates: Sequence[LeverCandidate], wrote: Sequence[str]) -> bool:
        if wrote:
            raise InputError(
                f"tune: the program writes to {wrote[0]}, outside of its folder, and it is run many times; "
                "allow it (`allow_writes=True`)"
            )
        return True

    def asked(self, question: Question) -> None:
        """Nothing to do."""

    def told(self, outcome: Rung | Rejected) -> None:
        """Nothing to do."""
