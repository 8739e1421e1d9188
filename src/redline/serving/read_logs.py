"""Reads the logs that `redline run` keeps of a serving engine and of its server."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from redline.artifacts.file_kind import lines_of
from redline.errors import InputError
from redline.serving import log_records as log
from redline.serving.engine_logs import log_files, logs_of_one_engine
from redline.serving.log_records import LogRecord, log_record
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
from redline.timeline.table import I64

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
            case log.Facts():
                self._facts(record.facts)
            case log.RequestQueued():
                self._request(record)
            case log.RequestCame() if not self._is_of_others(record.name):
                number = self._number(record.name)
                self.moments["came"][number] = record.came_ns
                self.moments["sent"][number] = record.sent_ns
            case log.OutputsTaken():
                self._taken_ns = record.taken_ns
            case log.TokensReady() if not self._is_of_others(record.name):
                self.ready.append((self._number(record.name), self._taken_ns, record.ready_ns))
            case log.WorkerPhase():
                number = self.phase_names.setdefault(record.name, len(self.phase_names))
                self.phases.append((number, record.start_ns, record.end_ns))
            case log.Step():
                self._step(record)
            case log.Metrics():
                self.exported = record.figures

    def _facts(self, facts: Mapping[str, object]) -> None:
        cores = max(_number(self.settings.get("cores")), _number(facts.get("cores")))  # workers are bound to some
        self.settings |= facts
        if cores:
            self.settings["cores"] = cores

    def _request(self, request: log.RequestQueued) -> None:
        number = self._number(request.name)
        self.moments["queued"][number] = request.queued_ns
        self.moments["prompt"][number] = request.prompt_tokens
        self.prefixes += request.prefixes
        self.asked.update(request.asks)

    def _step(self, step: log.Step) -> None:
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
