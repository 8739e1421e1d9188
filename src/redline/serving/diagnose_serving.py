"""From the logs of a run to what is known of its requests, as figures that fit a page."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from redline.artifacts.file_kind import FileKind
from redline.errors import InputError
from redline.serving.causes import Served, ServingCause, causes_of
from redline.serving.read_logs import log_files, read_serving
from redline.serving.recording import UNKNOWN_NS, ServingRecording
from redline.serving.request_ledger import (
    LatencySplit,
    RequestAccount,
    RequestLedger,
    RequestTimes,
    latency_splits,
    request_ledger,
)
from redline.serving.step_ledger import StepAccount
from redline.timeline.table import I64, Column
from redline.values import dataclass

_NS_PER_S = 1_000_000_000
_Seconds = Annotated[float, Meta(ge=0, le=1e6)]
_NUMBERED = re.compile(r"bench-[0-9a-f]+-(\d+)-")  # in the name of a request, which the client gives it


@dataclass(frozen=True, kw_only=True)
class ClientTimes:
    """One row per request that succeeded, since the client sent it."""

    number: I64  # that the client gave it
    first_token_ns: I64
    last_token_ns: I64


@dataclass(frozen=True, kw_only=True)
class _Detailed:
    """The columns of the file that are read, one row per request."""

    ttfts: list[_Seconds]
    itls: list[list[_Seconds]]
    errors: list[str]


_CLIENT = FileKind(
    "detailed results of `vllm bench serve`",
    _Detailed,
    "give --save-detailed to it",
    most_bytes=128 << 20,
    is_large=True,
)


def read_client(path: Path) -> ClientTimes:
    """InputError where it is another file."""
    told = _CLIENT.read(path)
    if not len(told.ttfts) == len(told.itls) == len(told.errors):
        raise InputError(f"{path}: its columns are of different requests; measure again")
    columns = zip(told.ttfts, told.itls, told.errors, strict=True)
    rows = [
        (number, _ns(first), _ns(first + sum(gaps))) for number, (first, gaps, error) in enumerate(columns) if not error
    ]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return ClientTimes(number=table[:, 0], first_token_ns=table[:, 1], last_token_ns=table[:, 2])


def _ns(seconds: float) -> int:
    return round(seconds * _NS_PER_S)


def with_client(ledger: RequestLedger, recording: ServingRecording, client: ClientTimes) -> RequestLedger:
    """What the client waited for besides is the network, and the HTTP server; only durations count, no clocks.

    InputError where it is a file about other requests.
    """
    row = rows_of_requests(client, recording)[ledger.to_last_token.request]
    if not (row >= 0).any():
        raise InputError("the client's file tells of none of the requests of this run; give the one of its own load")
    return replace(
        ledger,
        to_first_token=_with_network(ledger.to_first_token, row, client.first_token_ns),
        to_last_token=_with_network(ledger.to_last_token, row, client.last_token_ns),
    )


def rows_of_requests(client: ClientTimes, recording: ServingRecording) -> I64:
    """The row of each recorded request among the client's; -1 for requests of others."""
    known = {number: row for row, number in enumerate(client.number.tolist())}
    found = (_NUMBERED.search(name) for name in recording.requests.names)
    return np.array([known.get(int(match[1]), -1) if match else -1 for match in found], np.int64)


def _with_network(times: RequestTimes, row: I64, measured_ns: I64) -> RequestTimes:
    besides = np.where(row >= 0, np.maximum(measured_ns[row] - times.length_ns, 0), 0)
    amounts = times.amounts_ns.copy()
    amounts[:, RequestAccount.NETWORK] = besides
    return replace(times, length_ns=times.length_ns + besides, amounts_ns=amounts)


@dataclass(frozen=True, kw_only=True)
class MetricCheck:
    """A mean over the same requests, as the engine exports it and as it was recorded."""

    name: str
    requests: int
    exported_ns: float
    recorded_ns: float

    @property
    def difference(self) -> float:
        return abs(self.recorded_ns - self.exported_ns) / self.exported_ns if self.exported_ns else 0.0


def check_metrics(recording: ServingRecording, ledger: RequestLedger) -> tuple[MetricCheck, ...]:
    """None where requests are missing on one side: with several engines, or where recording began in the middle."""
    if recording.engines > 1 or ledger.left_out or not recording.exported:
        return ()
    first, last = ledger.to_first_token, ledger.to_last_token
    began = _began(recording, last.request)
    ended = began + last.length_ns
    decoding = (last.length_ns - first.length_ns) / np.maximum(ledger.tokens - 1, 1)
    queued = last.amounts_ns[:, RequestAccount.QUEUE].astype(float)
    found = [
        _check(recording, "time_to_first_token_seconds", began + first.length_ns, first.length_ns.astype(float)),
        _check(recording, "request_time_per_output_token_seconds", ended, np.where(ledger.tokens > 1, decoding, 0.0)),
        _check(recording, "e2e_request_latency_seconds", ended, last.length_ns.astype(float)),
        _check(recording, "request_queue_time_seconds", ended, queued),
    ]
    return tuple(check for check in found if check is not None)


def _began(recording: ServingRecording, request: I64) -> I64:
    came, queued = recording.requests.came_ns[request], recording.requests.queued_ns[request]
    return np.where(came == UNKNOWN_NS, queued, came)


def _check(recording: ServingRecording, name: str, moment_ns: I64, lengths_ns: Column) -> MetricCheck | None:
    """The mean of the requests that came to this moment before the engine saw its figures: as many as it counts."""
    number = int(recording.exported.get(f"vllm:{name}_count", 0))
    if not 0 < number <= len(moment_ns):
        return None
    counted = np.argsort(moment_ns, kind="stable")[:number]
    return MetricCheck(
        name=name,
        requests=number,
        exported_ns=recording.exported.get(f"vllm:{name}_sum", 0.0) * _NS_PER_S / number,
        recorded_ns=float(lengths_ns[counted].mean()),
    )


@dataclass(frozen=True, kw_only=True)
class StepTotals:
    steps: int
    window_ns: int  # from the first step to the end of the last
    median_ns: float  # of a step, with what is between it and the one before, and without waiting for somebody to ask
    amounts_ns: tuple[int, ...]  # by account of steps; they add up to the window
    tokens: int  # that the model computed
    prefill_tokens: int
    most_running: int
    most_waiting: int
    most_cache_share: float


@dataclass(frozen=True, kw_only=True)
class ServingDiagnosis:
    """Steps and requests of an engine, and why requests wait."""

    engine: str
    settings: Mapping[str, object]
    steps: StepTotals
    requests: int  # that were seen from beginning to end
    left_out: int
    new_tokens: int
    preempted: int
    splits: tuple[LatencySplit, ...]
    causes: tuple[ServingCause, ...]
    metrics: tuple[MetricCheck, ...]  # the engine's own, beside what was recorded
    dropped_lines: int
    engines: int  # that took steps in the run; this is the one that took most


def diagnose_serving(folder: Path, client: Path | None = None) -> ServingDiagnosis | None:
    """None where the run served nothing. `client` is what the client of its load wrote."""
    return diagnosis_of(folder, client) if log_files(folder) else None


def diagnosis_of(folder: Path, client: Path | None = None) -> ServingDiagnosis:
    """InputError where the run served nothing."""
    recording = read_serving(folder)
    ledger = request_ledger(recording)
    metrics = check_metrics(recording, ledger)
    if client is not None:
        ledger = with_client(ledger, recording, read_client(client))
    splits = latency_splits(ledger)
    return ServingDiagnosis(
        engine=str(recording.settings.get("engine", "")),
        settings=recording.settings,
        steps=_totals(recording, ledger),
        requests=len(ledger.to_last_token),
        left_out=ledger.left_out,
        new_tokens=int(recording.batch.new_tokens.sum()),
        preempted=len(recording.preemptions.step),
        splits=splits,
        causes=causes_of(Served(recording=recording, ledger=ledger, splits=splits)),
        metrics=metrics,
        dropped_lines=recording.dropped_lines,
        engines=recording.engines,
    )


def _totals(recording: ServingRecording, ledger: RequestLedger) -> StepTotals:
    steps, engine = ledger.steps, recording.steps
    asked_ns = steps.amounts_ns.sum(axis=1) - steps.amounts_ns[:, StepAccount.IDLE]
    return StepTotals(
        steps=len(steps),
        window_ns=int(steps.end_ns[-1] - steps.start_ns[0]),
        median_ns=float(np.median(asked_ns)),
        amounts_ns=tuple(steps.amounts_ns.sum(axis=0).tolist()),
        tokens=int(steps.tokens.sum()),
        prefill_tokens=int(steps.prefill_tokens.sum()),
        most_running=int(engine.running.max()),
        most_waiting=int(engine.waiting.max()),
        most_cache_share=float(engine.cache_share.max()),
    )
