"""The ledger of an engine's steps: every nanosecond from the end of a step to the end of the next, in one account."""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from redline.serving.recording import UNKNOWN_NS, ServingRecording
from redline.timeline.table import I64, Column
from redline.values import dataclass


class StepAccount(IntEnum):
    """What the engine does; columns of the ledger."""

    IDLE = 0  # nothing was asked: no loss
    BETWEEN = 1  # requests are there, and the engine is not at a step: it takes requests in and sends tokens out
    SCHEDULE = 2
    PREPARE = 3  # inputs of the model
    PREFILL = 4  # the model, by the share of tokens that are of prompts
    DECODE = 5  # the model, the rest
    SAMPLE = 6  # logits and the next tokens
    WORKER = 7  # in the workers, and in none of their phases
    OUTPUTS = 8  # tokens go to their requests
    RECORDING = 9  # a window of Redline begins or ends
    HANDOVER = 10  # from the engine to its workers, until the first of their phases, and back after the last


_OF_PHASES = {  # of vLLM, and where their time goes
    "gpu_model_runner: preprocess": StepAccount.PREPARE,
    "gpu_model_runner: forward": StepAccount.DECODE,
    "gpu_model_runner: postprocess": StepAccount.SAMPLE,
    "gpu_model_runner: sample": StepAccount.SAMPLE,
    "gpu_model_runner: draft": StepAccount.SAMPLE,
    "gpu_model_runner: bookkeep": StepAccount.SAMPLE,
    "gpu_model_runner: ModelRunnerOutput": StepAccount.SAMPLE,
    "redline: window": StepAccount.RECORDING,
}


@dataclass(frozen=True, kw_only=True)
class StepLedger:
    """Rows are steps in the order in which they ended, columns are accounts."""

    start_ns: I64  # where the step before ended; of the first one, where it began
    begin_ns: I64  # where the step itself begins
    end_ns: I64
    amounts_ns: npt.NDArray[np.int64]
    prefill_tokens: I64
    tokens: I64

    def __len__(self) -> int:
        return len(self.end_ns)

    def total_ns(self, account: StepAccount) -> int:
        return int(self.amounts_ns[:, account].sum())


def step_ledger(recording: ServingRecording, is_prefill: Column) -> StepLedger:
    """`is_prefill` says it of every row of the batches. The accounts of a step add up to its length, always."""
    steps, batch = recording.steps, recording.batch
    number = len(steps)
    start = np.concatenate([steps.schedule_ns[:1], steps.end_ns[:-1]])
    begin = np.clip(steps.schedule_ns, start, steps.end_ns)
    execute = np.clip(steps.execute_ns, begin, steps.end_ns)
    update = np.clip(steps.update_ns, execute, steps.end_ns)
    amounts = np.zeros((number, len(StepAccount)), np.int64)
    asked = np.clip(_asked_ns(recording), start, begin)
    amounts[:, StepAccount.IDLE] = asked - start
    amounts[:, StepAccount.BETWEEN] = begin - asked
    amounts[:, StepAccount.SCHEDULE] = execute - begin
    amounts[:, StepAccount.OUTPUTS] = steps.end_ns - update
    _add_phases(recording, execute, update, amounts)
    named = [StepAccount.PREPARE, StepAccount.DECODE, StepAccount.SAMPLE, StepAccount.RECORDING]
    in_workers = amounts[:, named].sum(axis=1)
    rest = update - execute - in_workers
    amounts[:, StepAccount.HANDOVER] = np.minimum(_handover_ns(recording, execute, update), rest)
    amounts[:, StepAccount.WORKER] = rest - amounts[:, StepAccount.HANDOVER]
    tokens = np.bincount(batch.step, batch.tokens, number).astype(np.int64)
    prefill = np.bincount(batch.step, batch.tokens * is_prefill, number).astype(np.int64)
    forward = amounts[:, StepAccount.DECODE]
    amounts[:, StepAccount.PREFILL] = forward * prefill // np.maximum(tokens, 1)
    amounts[:, StepAccount.DECODE] = forward - amounts[:, StepAccount.PREFILL]
    return StepLedger(
        start_ns=start,
        begin_ns=begin,
        end_ns=steps.end_ns,
        amounts_ns=amounts,
        prefill_tokens=prefill,
        tokens=tokens,
    )


def _asked_ns(recording: ServingRecording) -> I64:
    """For every step, since when a request is there that is in it or in a later one."""
    batch, requests = recording.batch, recording.requests
    number = len(recording.steps)
    last = np.full(len(requests), -1, np.int64)
    np.maximum.at(last, batch.request, batch.step)
    since = np.full(number + 1, np.iinfo(np.int64).max)
    known = np.where(requests.queued_ns == UNKNOWN_NS, 0, requests.queued_ns)
    np.minimum.at(since, last[last >= 0], known[last >= 0])
    earliest: I64 = np.minimum.accumulate(since[:number][::-1])[::-1]
    return earliest


def _handover_ns(recording: ServingRecording, execute: I64, update: I64) -> I64:
    """Of the workers' part of each step, what is before the first phase and after the last; 0 where there is none."""
    phases = recording.phases
    first, last = np.full(len(update), np.iinfo(np.int64).max), np.full(len(update), -1)
    step = np.searchsorted(update, phases.start_ns, side="right")
    inside = step < len(update)
    inside[inside] &= phases.start_ns[inside] >= execute[step[inside]]
    np.minimum.at(first, step[inside], phases.start_ns[inside])
    np.maximum.at(last, step[inside], np.minimum(phases.end_ns[inside], update[step[inside]]))
    return np.where(last >= 0, (first - execute) + (update - last), 0)


def _add_phases(recording: ServingRecording, execute: I64, update: I64, amounts: npt.NDArray[np.int64]) -> None:
    """Phases within the workers' part of each step; of several workers at once the first counts."""
    phases = recording.phases
    accounts = np.array([_OF_PHASES.get(name, UNKNOWN_NS) for name in phases.names], np.int64)
    account = accounts[phases.name] if len(accounts) else phases.name
    chosen = np.flatnonzero(account != UNKNOWN_NS)
    chosen = chosen[np.argsort(phases.start_ns[chosen], kind="stable")]
    if not len(chosen):
        return
    start, end = phases.start_ns[chosen], phases.end_ns[chosen]
    reached = np.maximum.accumulate(np.concatenate([[np.iinfo(np.int64).min], end[:-1]]))
    start = np.maximum(start, reached)
    step = np.searchsorted(update, start, side="right")
    inside = step < len(update)
    step, start, end, account = step[inside], start[inside], end[inside], account[chosen][inside]
    length = np.minimum(end, update[step]) - np.maximum(start, execute[step])
    np.add.at(amounts, (step, account), np.maximum(length, 0))
