"""Reads the logs that `redline run` keeps of a serving engine and of its server."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from redline.artifacts import open_ordinary
from redline.errors import InputError
from redline.serving.engine_logs import log_files, logs_of_one_engine
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


def _records(path: Path, rows: "_Rows") -> Iterator[Sequence[Any]]:
    """A process that is killed leaves a line that breaks off."""
    with os.fdopen(open_ordinary(path), encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                rows.dropped += 1
                continue
            if isinstance(record, list) and record:
                yield record
            else:
                rows.dropped += 1


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
        self._takers: dict[str, Callable[..., None]] = {
            "log": self._log,
            "facts": self._facts,
            "request": self._request,
            "came": self._came,
            "outputs": self._outputs,
            "ready": self._ready,
            "abort": self._abort,
            "phase": self._phase,
            "step": self._step,
            "metrics": self._metrics,
        }

    def read(self, paths: Iterable[Path]) -> None:
        for path in paths:
            for record in _records(path, self):
                try:
                    self.take(record)
                except (IndexError, KeyError, TypeError, ValueError, OverflowError):
                    self.dropped += 1

    def take(self, record: Sequence[Any]) -> None:
        """KeyError for one of another version."""
        self._takers[record[0]](*record[1:])

    def _log(self, _: Mapping[str, object]) -> None:
        """Its head: whose it is."""

    def _facts(self, facts: Mapping[str, object]) -> None:
        cores = max(_number(self.settings.get("cores")), _number(facts.get("cores")))  # workers are bound to some
        self.settings |= facts
        if cores:
            self.settings["cores"] = cores

    def _request(
        self,
        queued_ns: int,
        name: str,
        prompt_tokens: int,
        _most_tokens: int,
        asks: Sequence[str] = (),
        prefixes: Sequence[int] = (),
    ) -> None:
        numbers = [int(one) for one in prefixes]
        number = self._number(name)
        self.moments["queued"][number] = int(queued_ns)
        self.moments["prompt"][number] = int(prompt_tokens)
        self.prefixes += numbers
        self.asked.update(str(ask) for ask in asks)

    def _came(self, came_ns: int, sent_ns: int, name: str) -> None:
        if self._is_of_others(name):
            return
        number = self._number(name)
        self.moments["came"][number] = int(came_ns)
        self.moments["sent"][number] = int(sent_ns)

    def _outputs(self, taken_ns: int) -> None:
        self._taken_ns = int(taken_ns)

    def _ready(self, ready_ns: int, name: str) -> None:
        if not self._is_of_others(name):
            self.ready.append((self._number(name), self._taken_ns, int(ready_ns)))

    def _abort(self, *_: object) -> None:
        """When; the requests are not told."""

    def _phase(self, name: str, start_ns: int, end_ns: int) -> None:
        number = self.phase_names.setdefault(name, len(self.phase_names))
        self.phases.append((number, int(start_ns), int(end_ns)))

    def _step(
        self,
        _: int,
        times_ns: Sequence[int],
        batch: Sequence[tuple[str, int, int]],
        new_tokens: Sequence[tuple[str, int, bool]],
        preempted: Sequence[str],
        state: Sequence[float],
        drafts: Sequence[int] = (0, 0),
    ) -> None:
        schedule_ns, execute_ns, sample_ns, update_ns, end_ns = map(int, times_ns)
        running, waiting, cache_share = state
        drafted, accepted = map(int, drafts)
        got = {name: int(tokens) for name, tokens, _over in new_tokens}
        number = len(self.steps)
        rows = [(number, self._number(name), int(t), int(c), got.get(name, 0)) for name, t, c in batch]
        moments = (schedule_ns, execute_ns, sample_ns, update_ns, end_ns)
        self.steps.append((*moments, int(running), int(waiting), drafted, accepted))
        self.cache.append(float(cache_share))
        self.batch += rows
        self.finished |= {self._number(name) for name, _tokens, is_over in new_tokens if is_over}
        self.preempted += [(number, self._number(name)) for name in preempted]

    def _metrics(self, _: int, figures: Mapping[str, float]) -> None:
        self.exported = {str(name): float(figure) for name, figure in figures.items()}

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
