"""Reads what a serving engine logged: the files that belong together, their records, and the recording they make."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from redline.artifacts.file_kind import lines_of
from redline.errors import InputError
from redline.serving.recording import (
    UNKNOWN_NS,
    BatchRows,
    EngineSteps,
    Preemptions,
    ReadyTokens,
    RequestRows,
    ServingRecording,
    WorkerPhases,
)
from redline.storage import below
from redline.timeline.table import I64
from redline.values import dataclass

_Name = Annotated[str, Meta(max_length=1_000)]
_Count = Annotated[int, Meta(ge=0, le=10**15)]
_Time = Annotated[int, Meta(ge=-1, le=10**18)]  # ns of a clock, -1 for unknown: some sums of differences fit 64 bits
_Figure = Annotated[float, Meta(ge=-1e18, le=1e18)]
_Prefix = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _Record(msgspec.Struct, array_like=True, gc=False):
    """A list that begins with the word for what it is; what a later version adds at its end is left."""


class LogHead(_Record, tag="log"):
    head: dict[_Name, Any]


class Facts(_Record, tag="facts"):
    facts: dict[_Name, Any]


class RequestQueued(_Record, tag="request"):
    queued_ns: _Time
    name: _Name
    prompt_tokens: _Count
    most_tokens: Any
    asks: list[_Name] = []
    prefixes: list[_Prefix] = []


class RequestCame(_Record, tag="came"):
    came_ns: _Time
    sent_ns: _Time
    name: _Name


class OutputsTaken(_Record, tag="outputs"):
    taken_ns: _Time


class TokensReady(_Record, tag="ready"):
    ready_ns: _Time
    name: _Name


class Aborted(_Record, tag="abort"):
    when_ns: Any = None


class WorkerPhase(_Record, tag="phase"):
    name: _Name
    start_ns: _Time
    end_ns: _Time


class Step(_Record, tag="step"):
    number: Any
    times_ns: tuple[_Time, _Time, _Time, _Time, _Time]
    batch: list[tuple[_Name, _Count, _Count]]
    new_tokens: list[tuple[_Name, _Count, bool]]
    preempted: list[_Name]
    state: tuple[_Count, _Count, _Figure]
    drafts: tuple[_Count, _Count] = (0, 0)


class Metrics(_Record, tag="metrics"):
    when_ns: Any
    figures: dict[_Name, _Figure]


LogRecord = (
    LogHead | Facts | RequestQueued | RequestCame | OutputsTaken | TokensReady | Aborted | WorkerPhase | Step | Metrics
)
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(LogRecord)


def log_record(line: bytes) -> LogRecord | None:
    """None for what is none, or of another version; a process that is killed leaves a line that breaks off."""
    try:
        record: LogRecord = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    return record


ENGINE_LOGS, SERVER_LOGS = "engine-*.jsonl", "server-*.jsonl"
_STEP = b'["step"'  # how the line of a step begins


@dataclass(frozen=True, kw_only=True)
class EngineLogs:
    """The files, and how many engines took steps in the run."""

    of_engine: Sequence[Path]
    of_servers: Sequence[Path]
    engines: int


@dataclass(frozen=True, kw_only=True)
class _LogSummary:
    pid: object
    parent: object  # None in logs of before this was kept
    steps: int


def log_files(folder: Path) -> list[Path]:
    """Logs of a run; none where it served nothing."""
    return sorted(path for pattern in (ENGINE_LOGS, SERVER_LOGS) for path in below(folder, pattern))


def logs_of_one_engine(paths: Sequence[Path]) -> EngineLogs:
    """The one with the most steps: with data parallelism there are several, each with workers of its own."""
    servers = [path for path in paths if path.match(SERVER_LOGS)]
    heads = {path: _head_of(path) for path in paths if path not in servers}
    engines = [path for path, head in heads.items() if head.steps]
    if len(engines) < 2:
        return EngineLogs(of_engine=list(heads), of_servers=servers, engines=len(engines))
    most = max(engines, key=lambda path: heads[path].steps)
    workers = [path for path, head in heads.items() if not head.steps and head.parent in (None, heads[most].pid)]
    return EngineLogs(of_engine=[most, *workers], of_servers=servers, engines=len(engines))


def _head_of(path: Path) -> _LogSummary:
    head = None
    steps = 0
    for number, line in enumerate(lines_of(path)):
        steps += line.startswith(_STEP)
        if number == 0:
            head = log_record(line)
    told = head.head if isinstance(head, LogHead) else {}
    return _LogSummary(pid=told.get("pid"), parent=told.get("ppid"), steps=steps)


MOST_BYTES = 4 << 30  # of all logs of a run


def read_serving(folder: Path) -> ServingRecording:
    """InputError where there is no log, or none of a step."""
    paths = log_files(folder)
    if not paths:
        raise InputError(f"{folder}: no log of a serving engine in it; `redline run -- vllm serve ...` writes one")
    if sum(path.stat().st_size for path in paths) > MOST_BYTES:
        raise InputError(f"{folder}: its logs are larger than {MOST_BYTES >> 30} GiB; keep those of one engine only")
    logs = logs_of_one_engine(paths)
    rows = _Rows()
    rows.read(logs.of_engine)
    rows.is_one_of_several = logs.engines > 1
    rows.read(logs.of_servers)
    if not rows.steps:
        raise InputError(f"{folder}: the engine took no step while it was recorded")
    return replace(rows.recording(), engines=logs.engines)


class _Rows:
    """Lists that become columns."""

    def __init__(self) -> None:
        self.settings: dict[str, object] = {}
        self.steps: list[tuple[int, ...]] = []
        self.cache: list[float] = []
        self.batch: list[tuple[int, ...]] = []
        self.preempted: list[tuple[int, int]] = []
        self.ready: list[tuple[int, int, int]] = []
        self.phases: list[tuple[int, int, int]] = []
        self.phase_names: dict[str, int] = {}
        self.requests: dict[str, int] = {}
        self.moments: dict[str, dict[int, int]] = {"came": {}, "sent": {}, "queued": {}, "prompt": {}}
        self.finished: set[int] = set()
        self.prefixes: list[int] = []
        self.asked: Counter[str] = Counter()
        self.exported: dict[str, float] = {}
        self.dropped = 0
        self.is_one_of_several = False  # engines: what servers tell of the others' requests is left out
        self._taken_ns = UNKNOWN_NS

    def read(self, paths: Iterable[Path]) -> None:
        for path in paths:
            for line in lines_of(path):
                self._take(log_record(line))

    def _take(self, record: LogRecord | None) -> None:
        match record:
            case None:
                self.dropped += 1
            case Facts():
                self._facts(record.facts)
            case RequestQueued():
                self._request(record)
            case RequestCame() if not self._is_of_others(record.name):
                number = self._number(record.name)
                self.moments["came"][number] = record.came_ns
                self.moments["sent"][number] = record.sent_ns
            case OutputsTaken():
                self._taken_ns = record.taken_ns
            case TokensReady() if not self._is_of_others(record.name):
                self.ready.append((self._number(record.name), self._taken_ns, record.ready_ns))
            case WorkerPhase():
                number = self.phase_names.setdefault(record.name, len(self.phase_names))
                self.phases.append((number, record.start_ns, record.end_ns))
            case Step():
                self._step(record)
            case Metrics():
                self.exported = record.figures

    def _facts(self, facts: Mapping[str, object]) -> None:
        cores = max(_number(self.settings.get("cores")), _number(facts.get("cores")))  # workers are bound to some
        self.settings |= facts
        if cores:
            self.settings["cores"] = cores

    def _request(self, request: RequestQueued) -> None:
        number = self._number(request.name)
        self.moments["queued"][number] = request.queued_ns
        self.moments["prompt"][number] = request.prompt_tokens
        self.prefixes += request.prefixes
        self.asked.update(request.asks)

    def _step(self, step: Step) -> None:
        running, waiting, cache_share = step.state
        got = {name: tokens for name, tokens, _over in step.new_tokens}
        number = len(self.steps)
        self.steps.append((*step.times_ns, running, waiting, *step.drafts))
        self.cache.append(cache_share)
        self.batch += [(number, self._number(name), t, c, got.get(name, 0)) for name, t, c in step.batch]
        self.finished |= {self._number(name) for name, _tokens, is_over in step.new_tokens if is_over}
        self.preempted += [(number, self._number(name)) for name in step.preempted]

    def _is_of_others(self, name: str) -> bool:
        return self.is_one_of_several and name not in self.requests

    def _number(self, name: str) -> int:
        return self.requests.setdefault(name, len(self.requests))

    def recording(self) -> ServingRecording:
        steps = _columns(self.steps, 9)
        order = np.argsort(steps[4], kind="stable")  # as they ended, whatever the order of the lines
        place = np.argsort(order, kind="stable")
        steps = tuple(column[order] for column in steps)
        batch = _columns(self.batch, 5)
        ready = _columns(self.ready, 3)
        phases = _columns(self.phases, 3)
        preempted = _columns(self.preempted, 2)
        return ServingRecording(
            settings=self.settings,
            steps=EngineSteps(
                schedule_ns=steps[0],
                execute_ns=steps[1],
                sample_ns=steps[2],
                update_ns=steps[3],
                end_ns=steps[4],
                running=steps[5],
                waiting=steps[6],
                cache_share=np.array(self.cache)[order],
                drafted=steps[7],
                accepted=steps[8],
            ),
            batch=BatchRows(
                step=place[batch[0]], request=batch[1], tokens=batch[2], computed=batch[3], new_tokens=batch[4]
            ),
            requests=RequestRows(
                names=tuple(self.requests),
                came_ns=self._moment("came"),
                sent_ns=self._moment("sent"),
                queued_ns=self._moment("queued"),
                prompt_tokens=self._moment("prompt"),
                is_finished=np.isin(np.arange(len(self.requests)), list(self.finished)),
            ),
            ready=ReadyTokens(request=ready[0], taken_ns=ready[1], ready_ns=ready[2]),
            phases=WorkerPhases(name=phases[0], start_ns=phases[1], end_ns=phases[2], names=tuple(self.phase_names)),
            preemptions=Preemptions(step=place[preempted[0]], request=preempted[1]),
            prefixes=np.array(self.prefixes, np.int64),
            asked=self.asked,
            exported=self.exported,
            dropped_lines=self.dropped,
        )

    def _moment(self, name: str) -> I64:
        known = self.moments[name]
        return np.array([known.get(number, UNKNOWN_NS) for number in range(len(self.requests))], np.int64)


def _number(fact: object) -> int:
    return fact if isinstance(fact, int) else 0


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> tuple[I64, ...]:
    table = np.array(rows, np.int64).reshape(-1, width)
    return tuple(np.ascontiguousarray(table[:, number]) for number in range(width))
