"""`redline plan serve --measured`: the step of an engine that `redline run` has watched, for the planner."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from redline.errors import InputError
from redline.model.huggingface import read_config
from redline.model.model import Model
from redline.planner.serve.measured_engine import MeasuredPrompts, MeasuredStep
from redline.serving.read_logs import read_serving
from redline.serving.recording import ServingRecording
from redline.serving.request_ledger import request_ledger
from redline.serving.step_ledger import StepAccount, StepLedger
from redline.timeline.table import I64
from redline.verbs.diagnose import diagnose

_MODEL = [StepAccount.DECODE, StepAccount.SAMPLE]
_AROUND = [
    StepAccount.BETWEEN,
    StepAccount.SCHEDULE,
    StepAccount.PREPARE,
    StepAccount.HANDOVER,
    StepAccount.WORKER,
    StepAccount.OUTPUTS,
]
_NS_PER_S = 1e9


def measured_step(folder: Path, machine: str) -> MeasuredStep:
    """Of the most usual number of requests among steps that only generate; InputError where there is none."""
    recording = read_serving(folder)
    if max(_setting(recording, "tensor_parallel_size"), _setting(recording, "pipeline_parallel_size")) > 1:
        raise InputError(f"{folder}: its engine is spread over several devices; give a run on one")
    steps = request_ledger(recording).steps
    chosen = _alike(recording, steps)
    if not len(chosen):
        raise InputError(f"{folder}: no step of its engine only generates; give a run under load")
    amounts = steps.amounts_ns[chosen] / _NS_PER_S
    rows = np.isin(recording.batch.step, chosen)
    return MeasuredStep(
        engine=str(recording.settings.get("engine", "")),
        model=_model(recording, folder),
        steps=len(chosen),
        batch=float(steps.tokens[chosen[0]]),
        context=float(recording.batch.computed[rows].mean()),
        model_s=float(amounts[:, _MODEL].sum(axis=1).mean()),
        around_s=float(amounts[:, _AROUND].sum(axis=1).mean()),
        peak_share=_peak_share(folder, machine),
        prompts=_prompts(recording, steps),
        most_tokens=_setting(recording, "max_num_batched_tokens") or np.inf,
        most_sequences=_setting(recording, "max_num_seqs") or np.inf,
    )


def _peak_share(folder: Path, machine: str) -> float:
    """Of a window of the run: what its matrix products need at the machine's peaks, over what they take."""
    try:
        rows = diagnose(folder, machine=machine).diagnosis.kernels
    except InputError:  # steps were counted, and none was captured
        return 1.0
    rated = [row for row in rows if row.flops > 0 and row.roof_ns > 0]
    took_ns = sum(row.time_ns for row in rated)
    return min(sum(row.roof_ns for row in rated) / took_ns, 1.0) if took_ns else 1.0


def _prompts(recording: ServingRecording, steps: StepLedger) -> MeasuredPrompts | None:
    """Without the first, in which an engine does what it does once."""
    rows = np.flatnonzero(steps.prefill_tokens > 0)[1:]
    if not len(rows):
        return None
    return MeasuredPrompts(
        tokens=float(steps.prefill_tokens[rows].mean()),
        length=float(recording.requests.prompt_tokens.mean()),
        model_s=float(steps.amounts_ns[rows, StepAccount.PREFILL].mean()) / _NS_PER_S,
    )


def _alike(recording: ServingRecording, steps: StepLedger) -> I64:
    generating: I64 = np.flatnonzero((steps.prefill_tokens == 0) & (steps.tokens > 0) & (recording.steps.drafted == 0))
    if not len(generating):
        return generating
    sizes, counts = np.unique(steps.tokens[generating], return_counts=True)
    alike: I64 = generating[steps.tokens[generating] == sizes[counts.argmax()]]
    return alike


def _setting(recording: ServingRecording, name: str) -> float:
    value = recording.settings.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _model(recording: ServingRecording, folder: Path) -> Model:
    told = recording.settings.get("model_config")
    if not isinstance(told, Mapping):
        raise InputError(f"{folder}: its log does not say which model was served; record it again")
    return read_config(dict(told))
