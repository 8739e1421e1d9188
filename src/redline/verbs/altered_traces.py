"""`redline diagnose --save-altered`: the timelines of a what-if as traces, one for each rank."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from redline.errors import InputError, OutputError, UsageError
from redline.findings.replayed import ReplayedJob
from redline.job.read_files import JobOptions
from redline.ledger.job.digests import analyses_again
from redline.ledger.rank.digest import Digest
from redline.progress import Progress, ProgressStage
from redline.replay.altered import MADE_BY, altered_timeline
from redline.replay.changes import Scenario
from redline.replay.forecast import ScenarioReplay
from redline.replay.job_graph import JobGraph
from redline.trace.perfetto import write_timelines


class AlteredTraces:
    """Takes the scenario when it is replayed, and writes it when the replay is over."""

    def __init__(self, folder: Path, asked: Sequence[Scenario]) -> None:
        """What stands against it is said before anything is read."""
        if len(asked) != 1:
            raise UsageError(
                "diagnose: `save_altered=...` saves the timelines of one scenario: give `what_if=...` once, with "
                "commas between changes that are made together"
            )
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise OutputError(
                f"{folder} is a file, or a folder that is not empty; give `save_altered=...` a new folder, so that "
                "nothing that was measured lies beside what was not"
            )
        self._folder = folder
        self._replayed: tuple[JobGraph, ScenarioReplay] | None = None

    def take(self, job: JobGraph, scenario: ScenarioReplay) -> None:
        if not scenario.forecast.declined:
            self._replayed = job, scenario

    def written(
        self,
        ranks: Sequence[Digest],
        files: Sequence[Path],
        machine: str | None,
        options: JobOptions,
        progress: Progress,
        replayed: ReplayedJob,
    ) -> tuple[str, ...]:
        """The files, in order of rank. Traces are opened again, one after the other."""
        if self._replayed is None:
            raise InputError(f"{self._folder}: nothing was saved. {replayed.asked[0].declined}")
        job, scenario = self._replayed
        self._folder.mkdir(parents=True, exist_ok=True)
        paths: dict[int, str] = {}
        for place, analysis in analyses_again(ranks, files, machine, options):
            progress(ProgressStage.WRITE, len(paths), len(ranks))
            timeline = replace(analysis.timeline, rank=ranks[place].origin.rank)
            path = self._folder / f"rank-{timeline.rank}.json.gz"
            altered = altered_timeline(timeline, job, place, scenario)
            write_timelines([altered], path, made_by=MADE_BY, notes=[_note(altered.changes)])
            paths[place] = str(path)
        if len(paths) < len(ranks):
            raise InputError(
                f"{self._folder}: {len(ranks) - len(paths)} traces changed while they were read; try again"
            )
        return tuple(paths[place] for place in sorted(paths))


def _note(changes: Sequence[str]) -> str:
    return f"altered by {'; '.join(changes)}, not measured"
