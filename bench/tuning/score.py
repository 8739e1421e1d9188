"""One case from start to end: the search, fresh pairs of the twin and of what the search gave, and its numbers."""

from dataclasses import asdict, dataclass
from pathlib import Path

import redline
from bench.tuning.cases import TuningCase
from bench.tuning.fresh_pairs import FreshChange, time_in_turns
from bench.tuning.run_tune import TuneError, TuneRun, levers_in, run_tune
from redline.capture.supervisor.trial_command import trial_command
from redline.errors import RedlineError


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """How much is spent."""

    budget_minutes: int = 20
    turns: int = 3  # of six pairs each
    steps: int = 40  # of a process
    seed: int = 1
    is_searched: bool = True  # otherwise tuned.toml of an earlier search is timed


@dataclass(frozen=True, kw_only=True)
class CaseScore:
    """What is known of a case; `failed` says why something is missing."""

    name: str
    twin: FreshChange | None = None
    tuned: FreshChange | None = None
    levers: tuple[str, ...] | None = None
    minutes: float | None = None  # of the search
    numbers: str = ""  # the class that the levers were found to be of
    numbers_hold: bool | None = None
    failed: str = ""

    @property
    def share(self) -> float | None:
        """Of the twin's gain that the search reached; None where the twin has none."""
        if self.twin is None or self.tuned is None or self.twin.change >= 0:
            return None
        return self.tuned.change / self.twin.change

    def line(self) -> dict[str, object]:
        return {**asdict(self), "share": self.share}


def score_case(case: TuningCase, out: Path, options: ScoreOptions) -> CaseScore:
    """Never raises for what a job or a search does: a case that fails is a line with the reason."""
    record = (out / case.name).resolve()
    run, failed = None, ""
    try:
        run = run_tune(case.job, record, options.budget_minutes) if options.is_searched else _earlier(record)
    except TuneError as error:
        failed = str(error)
    try:
        return _timed(case, run, failed, options)
    except RedlineError as error:
        return CaseScore(
            name=case.name,
            levers=run.levers if run else None,
            minutes=run.minutes if run else None,
            failed="; ".join(filter(None, (failed, str(error)))),
        )


def _earlier(record: Path) -> TuneRun:
    return TuneRun(levers=levers_in(record / "tuned.toml"), minutes=0.0)


def _timed(case: TuningCase, run: TuneRun | None, failed: str, options: ScoreOptions) -> CaseScore:
    programs = {"twin": trial_command(case.tuned)}
    if run is not None and run.levers:
        programs["tuned"] = trial_command(case.start, levers=run.levers)
    changes = time_in_turns(
        trial_command(case.start), programs, turns=options.turns, steps=options.steps, seed=options.seed
    )
    tuned = changes.get("tuned")
    if run is None or not run.levers or tuned is None:
        return CaseScore(
            name=case.name,
            twin=changes.get("twin"),
            levers=run.levers if run else None,
            minutes=run.minutes if run else None,
            failed=failed or "redline tune kept no lever",
        )
    numbers = redline.compare_numbers(case.start, levers=run.levers).numbers
    return CaseScore(
        name=case.name,
        twin=changes.get("twin"),
        tuned=tuned,
        levers=run.levers,
        minutes=run.minutes,
        numbers=str(numbers.verdict) if numbers else "",
        numbers_hold=numbers.holds if numbers else None,
    )
