"""One run of the job with some steps captured: what it is limited by, and what it does besides."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from redline.capture.places import Place, places_in
from redline.capture.process import is_alive
from redline.capture.settings import Settings
from redline.capture.shared_state import EXPORTER, EXPORTING, STATE
from redline.capture.supervisor.trial_command import TrialCommand
from redline.capture.supervisor.trial_job import TrialJob, start_trial
from redline.errors import InputError
from redline.trials.trial_jobs import raise_if_failed

_AFTER = 8  # steps before those that are captured
_STEPS = 3
_MORE = 3
_WRITERS_S = 60.0


@dataclass(frozen=True, kw_only=True)
class CapturedJob:
    """What is known of it beside its traces."""

    traces: tuple[Path, ...]
    loader_share: float  # of its steps that it waits for data, before any is captured
    ranks: int
    has_accelerator: bool
    wrote_elsewhere: tuple[str, ...]  # files outside of its folders
    places: tuple[Place, ...]  # in the user's own files, at which levers could be written


def capture_job(command: TrialCommand, folder: Path, most_s: float, *, allow_writes: bool = False) -> CapturedJob:
    """Run it for some steps. InputError where it fails."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = Settings({
        "on_trial": True, "fork": False, "after": _AFTER, "steps": _STEPS, "folder": str(folder.resolve()),
        "timed_after_s": 0.0, "places": True,
    })  # fmt: skip
    with start_trial(command, settings, allow_writes=allow_writes) as job:
        job.end_after(_AFTER + _STEPS + _MORE)
        ended = job.wait(until_s=time.perf_counter() + most_s)
        if ended is None:
            raise InputError(f"{command.with_levers}: it did not take {_AFTER + _STEPS} steps in {most_s:g} s")
        raise_if_failed(job, ended, "let it write nothing in its first steps")
        _wait_for_traces(job)
        return CapturedJob(
            traces=tuple(sorted(folder.glob("window-*/*.json.gz"))),
            loader_share=_loader_share(job),
            ranks=max(len(job.ranks()), 1),
            has_accelerator=bool(job.facts().get("accelerators")),
            wrote_elsewhere=_wrote_elsewhere(job),
            places=places_in(job.facts()),
        )


def _wait_for_traces(job: TrialJob) -> None:
    """What compresses them outlives the job, by much on a busy machine."""
    until_s = time.perf_counter() + _WRITERS_S
    while any(
        (window[STATE] == EXPORTING and is_alive(window[EXPORTER])) for slot in job.ranks() for window in slot.windows()
    ):
        if time.perf_counter() > until_s:
            return
        time.sleep(0.02)


def _loader_share(job: TrialJob) -> float:
    """Of the rank that waits longest."""
    shares = []
    for slot in job.ranks():
        lengths, waits, _ = slot.steps()
        counted, waited = lengths[1:_AFTER], waits[1:_AFTER]
        if sum(counted) > 0:
            shares.append(sum(waited) / sum(counted))
    return max(shares, default=0.0)


def _wrote_elsewhere(job: TrialJob) -> tuple[str, ...]:
    told = job.facts().get("wrote elsewhere", [])
    return tuple(map(str, told)) if isinstance(told, list) else ()
