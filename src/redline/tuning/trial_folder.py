"""The folder of a search: every trial is a file that `redline compare` reads, and that is not measured again.

A search that is begun again asks the same questions in the same order, and those that have been answered are read.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from redline.artifacts import Envelope, write_atomic
from redline.artifacts.file_kind import FileKind
from redline.errors import InputError
from redline.ledger.rank.digest_limits import Count
from redline.trials.numbers.check import NumbersResult
from redline.trials.trial_jobs import MemoryTrial
from redline.trials.trial_record import KIND as TRIAL
from redline.trials.trial_record import SCHEMA_VERSION as TRIAL_SCHEMA
from redline.trials.trial_record import TrialRecord, to_record, trial_of
from redline.trials.trial_result import TrialResult

KIND = "tuning"
SCHEMA_VERSION = 1
STATE = "tuning.json"
TRIALS = "trials"


class Asked(StrEnum):
    """What a trial was to find out."""

    START = "start"  # step time and memory of the job as it is
    TIME = "time"
    NUMBERS = "numbers"
    MEMORY = "memory"
    PEAK = "peak"  # memory of the job with the levers that are kept
    WHOLE = "whole"  # all that is kept against the start


@dataclass(frozen=True, kw_only=True)
class Question:
    """Two of them are the same where all of this is."""

    asked: Asked
    kept: tuple[str, ...] = ()  # levers on both sides
    levers: tuple[str, ...] = ()  # levers that are tried
    replaced: str = ""  # the lever of `kept` that is off where they are on


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is known; only what was asked for is there."""

    trial: TrialResult | None = None
    numbers: NumbersResult | None = None
    memory: MemoryTrial | None = None
    error: str = ""
    peak_bytes: int = 0
    step_s: float = 0.0
    left_processes: int = 0


@dataclass(frozen=True, kw_only=True)
class _Kept(TrialRecord):
    """The file of an answer."""

    question: Question
    memory: MemoryTrial | None
    error: str
    peak_bytes: Count
    step_s: float
    left_processes: Count


@dataclass(frozen=True, kw_only=True)
class _State:
    """The file that makes a folder that of a search."""

    identity: dict[str, Any]


_BESIDE = ("memory", "error", "peak_bytes", "step_s", "left_processes")  # the trial and the numbers, as written
_ANEW = "remove it, and what it held is measured again"
_ANSWER = FileKind("a trial of a search", _Kept, _ANEW, most_bytes=8 << 20, envelope=(TRIAL, TRIAL_SCHEMA))
_SEARCH = FileKind("the state of a search", _State, _ANEW, most_bytes=1 << 20, envelope=(KIND, SCHEMA_VERSION))


class TrialFolder:
    """Of one search."""

    def __init__(self, path: Path, identity: Mapping[str, object]) -> None:
        self.path = path
        self._trials = path / TRIALS
        self._answers: dict[Question, Answer] = {}
        self._identify(dict(identity))
        self._trials.mkdir(exist_ok=True)
        for file in sorted(self._trials.glob("*.json")):
            question, answer = _read(file)
            self._answers[question] = answer

    def known(self, question: Question) -> Answer | None:
        return self._answers.get(question)

    def keep(self, question: Question, answer: Answer) -> Answer:
        self._answers[question] = answer
        name = f"{self._next_number():03d}-{question.asked}{_slug(question.levers)}.json"
        known = asdict(replace(answer, trial=None, numbers=None))
        content = {**to_record(answer.trial, answer.numbers), "question": asdict(question)}
        _write(self._trials / name, content | {beside: known[beside] for beside in _BESIDE})
        return answer

    def _next_number(self) -> int:
        """Beyond all that there are: some may have been removed."""
        return 1 + max((int(path.name.partition("-")[0]) for path in self._trials.glob("[0-9]*-*.json")), default=0)

    def _identify(self, identity: dict[str, object]) -> None:
        """A folder is of one command on one machine: what was measured elsewhere says nothing here."""
        self.path.mkdir(parents=True, exist_ok=True)
        state = self.path / STATE
        if not state.exists():
            if any(self.path.iterdir()):
                raise InputError(f"{self.path} has files that are not of a search; give another folder (`record=...`)")
            envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline tune", synthetic=False)
            _write(state, {**envelope.to_dict(), "identity": identity})
            return
        known = _SEARCH.read(state).identity
        others = [name for name, value in identity.items() if known.get(name) != value]
        if others:
            raise InputError(
                f"{self.path} is a search with another {', '.join(others)}; give another folder (`record=...`)"
            )


def _slug(levers: Sequence[str]) -> str:
    joined = "+".join(levers)
    return "-" + re.sub(r"[^A-Za-z0-9=+.-]", "_", joined)[:60] if joined else ""


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with write_atomic(path, force=True) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False).encode())


def _read(path: Path) -> tuple[Question, Answer]:
    record = _ANSWER.read(path)
    trial, numbers = trial_of(record)
    known = {beside: getattr(record, beside) for beside in _BESIDE}
    return record.question, Answer(trial=trial, numbers=numbers, **known)
