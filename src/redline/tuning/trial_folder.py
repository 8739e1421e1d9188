"""The folder of a search: every trial is a file that `redline compare` reads, and that is not measured again.

A search that is begun again asks the same questions in the same order, and those that have been answered are read.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from redline.artifacts import Envelope, check_envelope, read_whole, write_atomic
from redline.errors import InputError
from redline.trials.memory_trial import MemoryTrial
from redline.trials.numbers.check import NumbersResult
from redline.trials.trial_record import from_record, to_record
from redline.trials.trial_result import TrialResult

KIND = "tuning"
SCHEMA_VERSION = 1
STATE = "tuning.json"
TRIALS = "trials"
_MOST_BYTES = 64 << 20


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
        content = {
            **to_record(answer.trial, answer.numbers),
            "question": asdict(question),
            "memory": None if answer.memory is None else asdict(answer.memory),
            "error": answer.error,
            "peak_bytes": answer.peak_bytes,
            "step_s": answer.step_s,
            "left_processes": answer.left_processes,
        }
        _write(self._trials / name, content)
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
        known = _loaded(state)
        check_envelope(known, KIND, SCHEMA_VERSION, where=str(state))
        others = [name for name, value in identity.items() if known["identity"].get(name) != value]
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


def _loaded(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_whole(path, _MOST_BYTES, "a part of a search"))
        if isinstance(content, dict):
            return content
    except (ValueError, RecursionError):
        pass
    raise InputError(f"{path} is damaged; remove it, and what it held is measured again") from None


def _read(path: Path) -> tuple[Question, Answer]:
    content = _loaded(path)
    try:
        asked = content["question"]
        question = Question(
            asked=Asked(asked["asked"]),
            kept=tuple(asked["kept"]),
            levers=tuple(asked["levers"]),
            replaced=asked["replaced"],
        )
        trial, numbers = from_record(content, where=str(path))
        return question, Answer(
            trial=trial,
            numbers=numbers,
            memory=_memory(content["memory"]),
            error=str(content["error"]),
            peak_bytes=int(content["peak_bytes"]),
            step_s=float(content["step_s"]),
            left_processes=int(content["left_processes"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(f"{path} is damaged; remove it, and what it held is measured again") from None


def _memory(record: Mapping[str, Any] | None) -> MemoryTrial | None:
    if record is None:
        return None
    return MemoryTrial(
        before_bytes=tuple(record["before_bytes"]),
        after_bytes=tuple(record["after_bytes"]),
        before_step_s=tuple(record["before_step_s"]),
        after_step_s=tuple(record["after_step_s"]),
        error=str(record["error"]),
    )
