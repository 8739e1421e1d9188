"""From the logs of a run to what is known of its requests, as figures that fit a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from redline.serving.causes import Served, ServingCause, causes_of
from redline.serving.client_file import read_client, with_client
from redline.serving.engine_logs import log_files
from redline.serving.exported_metrics import MetricCheck, check_metrics
from redline.serving.latencies import LatencySplit, latency_splits
from redline.serving.read_logs import read_serving
from redline.serving.recording import ServingRecording
from redline.serving.request_ledger import RequestLedger, request_ledger
from redline.serving.step_ledger import StepAccount


@dataclass(frozen=True, kw_only=True)
class StepTotals:
    """Of all steps that were recorded."""

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
