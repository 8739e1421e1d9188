"""The ledger of requests: every nanosecond from the arrival of a request to its last token, in one account."""

from collections.abc import Sequence
from enum import IntEnum, StrEnum

import numpy as np
import numpy.typing as npt

from redline.serving.recording import UNKNOWN_NS, BatchRows, ServingRecording
from redline.serving.step_ledger import StepAccount, StepLedger, step_ledger
from redline.timeline.table import I64, Column
from redline.values import dataclass


class RequestAccount(IntEnum):
    """What a request waits for; columns of the ledger."""

    TOKENISE = 0
    TO_ENGINE = 1
    QUEUE = 2
    PREFILL = 3
    OTHERS_PREFILL = 4  # in the same steps
    DECODE = 5
    PREEMPTED = 6  # it lost its place in the cache
    RECOMPUTE = 7  # of what it had before it lost its place
    NOT_SCHEDULED = 8  # other requests were
    SCHEDULE = 9
    PREPARE = 10
    SAMPLE = 11
    OUTPUTS = 12
    BETWEEN = 13  # steps
    WORKER = 14
    TO_SERVER = 15
    DETOKENISE = 16
    NETWORK = 17  # what only a client knows: the network, and the HTTP server
    CURRENT_STEP = 18  # of the engine, which looks for new requests between steps
    RECORDING = 19
    HANDOVER = 20  # between the engine and its workers


_SHARED = {  # what all requests of a step wait for alike
    StepAccount.IDLE: RequestAccount.BETWEEN,
    StepAccount.BETWEEN: RequestAccount.BETWEEN,
    StepAccount.SCHEDULE: RequestAccount.SCHEDULE,
    StepAccount.PREPARE: RequestAccount.PREPARE,
    StepAccount.SAMPLE: RequestAccount.SAMPLE,
    StepAccount.OUTPUTS: RequestAccount.OUTPUTS,
    StepAccount.WORKER: RequestAccount.WORKER,
    StepAccount.RECORDING: RequestAccount.RECORDING,
    StepAccount.HANDOVER: RequestAccount.HANDOVER,
}


@dataclass(frozen=True, kw_only=True)
class RequestTimes:
    """Rows are requests, from their arrival to a token; columns are accounts that add up to `length_ns`."""

    request: I64
    length_ns: I64
    amounts_ns: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.request)


@dataclass(frozen=True, kw_only=True)
class RequestLedger:
    """Requests that were seen from beginning to end."""

    steps: StepLedger
    to_first_token: RequestTimes
    to_last_token: RequestTimes
    tokens: I64  # that each of these requests got
    between_tokens_ns: npt.NDArray[np.int64]  # rows are tokens after the first of a request, columns are accounts
    left_out: int  # requests that had begun before, or had not ended


@dataclass(frozen=True, kw_only=True)
class RowRoles:
    """What each row of the batches is to its request."""

    is_prefill: Column  # of the prompt, or of what is computed again
    is_recomputed: Column
    is_after_preemption: Column  # the first row since the request lost its place


def request_ledger(recording: ServingRecording) -> RequestLedger:
    batch, requests = recording.batch, recording.requests
    order = np.lexsort((batch.step, batch.request))
    batch = BatchRows(**{name: column[order] for name, column in vars(batch).items()})
    roles = _roles(batch, requests.prompt_tokens)
    is_prefill = np.empty(len(order), bool)
    is_prefill[order] = roles.is_prefill
    steps = step_ledger(recording, is_prefill)
    lives = _Lives(recording, batch, roles, steps)
    whole = lives.whole()
    return RequestLedger(
        steps=steps,
        to_first_token=lives.until(whole, lives.first_token[whole], is_first=True),
        to_last_token=lives.until(whole, lives.last_token[whole], is_first=False),
        tokens=lives.tokens[whole],
        between_tokens_ns=lives.between_tokens(whole),
        left_out=len(requests) - len(whole),
    )


def _roles(batch: BatchRows, prompt_tokens: I64) -> RowRoles:
    """Rows are sorted by request, then by step. What was computed never becomes less, unless it was lost."""
    is_same = np.concatenate([[False], batch.request[1:] == batch.request[:-1]])
    is_lost = is_same & (batch.computed < np.concatenate([[0], batch.computed[:-1]]))
    reached = batch.computed + batch.tokens
    lost = np.zeros(len(batch.step), np.int64)  # how much of it a request had before it lost its place
    for row in np.flatnonzero(is_lost).tolist():
        of_request = np.searchsorted(batch.request, batch.request[row], side="right")
        lost[row:of_request] = np.maximum(lost[row:of_request], max(reached[row - 1], lost[row - 1]))
    is_recomputed = batch.computed < lost
    is_prefill = (batch.computed < prompt_tokens[batch.request]) | is_recomputed
    return RowRoles(is_prefill=is_prefill, is_recomputed=is_recomputed, is_after_preemption=is_lost)


class _Lives:
    """Requests from step to step; rows are sorted by request."""

    def __init__(self, recording: ServingRecording, batch: BatchRows, roles: RowRoles, steps: StepLedger) -> None:
        self._recording = recording
        self._batch = batch
        self._steps = steps
        self._row_amounts = _row_amounts(batch, roles, steps)
        self._is_after_preemption = roles.is_after_preemption
        number = len(recording.requests)
        rows = np.arange(len(batch.step))
        gives = np.flatnonzero(batch.new_tokens > 0)
        self.first_row = _first(batch.request, rows, number)
        self.first_token = _first(batch.request[gives], gives, number)
        self.last_token = np.full(number, -1, np.int64)
        np.maximum.at(self.last_token, batch.request[gives], gives)
        self.tokens = np.bincount(batch.request, batch.new_tokens, number).astype(np.int64)
        self._total = np.cumsum(self._row_amounts + self._waits_before(rows), axis=0)

    def whole(self) -> I64:
        requests = self._recording.requests
        return np.flatnonzero(requests.is_finished & (requests.queued_ns != UNKNOWN_NS) & (self.last_token >= 0))

    def until(self, request: I64, row: I64, *, is_first: bool) -> RequestTimes:
        """From the arrival of these requests to the token that each got in this row."""
        requests, steps = self._recording.requests, self._steps
        amounts = self._in_engine(request, row)
        first = self._batch.step[self.first_row[request]]
        queued = requests.queued_ns[request]
        sent = _known_or(requests.sent_ns[request], queued)
        came = _known_or(requests.came_ns[request], sent)
        amounts[:, RequestAccount.TOKENISE] = sent - came
        in_step = _rest_of_step(steps, sent, queued)
        amounts[:, RequestAccount.CURRENT_STEP] = in_step
        amounts[:, RequestAccount.TO_ENGINE] = queued - sent - in_step
        amounts[:, RequestAccount.QUEUE] = steps.begin_ns[first] - queued
        end = steps.end_ns[self._batch.step[row]]
        taken, ready = self._ready(request, end, is_first=is_first)
        amounts[:, RequestAccount.TO_SERVER] = taken - end
        amounts[:, RequestAccount.DETOKENISE] = ready - taken
        return RequestTimes(request=request, length_ns=ready - came, amounts_ns=amounts)

    def between_tokens(self, requests: I64) -> npt.NDArray[np.int64]:
        """From the step that gave a token to the one that gave the next, for these requests."""
        gives = np.flatnonzero(self._batch.new_tokens > 0)
        of = self._batch.request[gives]
        later = np.flatnonzero((of[1:] == of[:-1]) & np.isin(of[1:], requests)) + 1
        amounts: npt.NDArray[np.int64] = self._total[gives[later]] - self._total[gives[later - 1]]
        return amounts

    def _in_engine(self, request: I64, row: I64) -> npt.NDArray[np.int64]:
        """Rows from the first of each request to this one, and the steps between them that it was not in."""
        total = self._total
        first = self.first_row[request]
        step = self._batch.step[first]
        amounts: npt.NDArray[np.int64] = total[row] - total[first] + self._row_amounts[first]
        unseen = self._steps.begin_ns[step] - self._steps.start_ns[step]  # before the step it was in the queue
        amounts[:, RequestAccount.BETWEEN] -= unseen
        return amounts

    def _waits_before(self, rows: I64) -> npt.NDArray[np.int64]:
        """Steps between a row and the one before it of the same request.

        A request has its place until it loses it, which is while the first step that it is not in is scheduled.
        """
        batch, steps = self._batch, self._steps
        amounts = np.zeros((len(rows), len(RequestAccount)), np.int64)
        is_same = np.concatenate([[False], batch.request[1:] == batch.request[:-1]])[: len(rows)]
        later = np.flatnonzero(is_same)
        now, before = batch.step[later], batch.step[later - 1]
        gaps = np.concatenate([[0], np.cumsum(steps.begin_ns - steps.start_ns)])
        waited = steps.start_ns[now] - steps.end_ns[before]
        between = np.where(now > before + 1, gaps[now] - gaps[before + 1], 0)
        amounts[later, RequestAccount.NOT_SCHEDULED] = waited - between
        amounts[later, RequestAccount.BETWEEN] = between
        lost = self._is_after_preemption[later]
        first_gap = np.where(now > before + 1, gaps[before + 2] - gaps[before + 1], 0)
        last_gap = gaps[now + 1] - gaps[now]
        amounts[later[lost], RequestAccount.NOT_SCHEDULED] = 0
        amounts[later[lost], RequestAccount.PREEMPTED] = (waited - first_gap + last_gap)[lost]
        amounts[later[lost], RequestAccount.BETWEEN] = (first_gap - last_gap)[lost]
        return amounts

    def _ready(self, request: I64, end: I64, *, is_first: bool) -> tuple[I64, I64]:
        """When the server took the token, and when its text was ready; the end of the step where that is unknown."""
        ready = self._recording.ready
        rows = np.arange(len(ready.request))
        number = len(self._recording.requests)
        chosen = np.full(number, -1, np.int64)
        if is_first:
            chosen = _first(ready.request, rows, number)
        else:
            np.maximum.at(chosen, ready.request, rows)
        row = chosen[request]
        known = (row >= 0) & (len(rows) > 0)
        at = np.where(known, row, 0)
        if not len(rows):
            return end, end
        taken = np.where(known, np.maximum(ready.taken_ns[at], end), end)
        return taken, np.where(known, np.maximum(ready.ready_ns[at], taken), taken)


def _row_amounts(batch: BatchRows, roles: RowRoles, steps: StepLedger) -> npt.NDArray[np.int64]:
    """What the step of each row was spent on, as its request sees it."""
    step = batch.step
    amounts = np.zeros((len(step), len(RequestAccount)), np.int64)
    for of_step, of_request in _SHARED.items():
        amounts[:, of_request] += steps.amounts_ns[step, of_step]
    forward = steps.amounts_ns[step, StepAccount.PREFILL] + steps.amounts_ns[step, StepAccount.DECODE]
    others = steps.prefill_tokens[step] - np.where(roles.is_prefill, batch.tokens, 0)
    blocked = forward * others // np.maximum(steps.tokens[step], 1)
    amounts[:, RequestAccount.OTHERS_PREFILL] = blocked
    own = np.where(
        roles.is_recomputed,
        RequestAccount.RECOMPUTE,
        np.where(roles.is_prefill, RequestAccount.PREFILL, RequestAccount.DECODE),
    )
    amounts[np.arange(len(step)), own] = forward - blocked
    return amounts


def _rest_of_step(steps: StepLedger, sent: I64, queued: I64) -> I64:
    """What was left of the step that the engine was in when a request was sent to it."""
    place = np.searchsorted(steps.end_ns, sent, side="right")
    within = place < len(steps)
    place = np.minimum(place, len(steps) - 1)
    rest = np.minimum(steps.end_ns[place], queued) - sent
    return np.where(within & (steps.begin_ns[place] <= sent), np.maximum(rest, 0), 0)


def _first(keys: I64, rows: I64, number: int) -> I64:
    """The first of these rows with each key; -1 where there is none."""
    found = np.full(number, -1, np.int64)
    found[keys[::-1]] = rows[::-1]
    return found


def _known_or(moment: I64, other: I64) -> I64:
    known: I64 = np.where(moment == UNKNOWN_NS, other, np.minimum(moment, other))
    return known


PERCENTILES = (50, 90, 99)
SLOWEST = PERCENTILES[-1]
_NEAR = 0.05  # of the requests, those whose latency is nearest to a percentile, speak for it


class Latency(StrEnum):
    """From arrival to the first token; after it, per token; from a token to the next; from arrival to the last."""

    TTFT = "TTFT"
    TPOT = "TPOT"
    ITL = "ITL"
    END_TO_END = "end to end"


@dataclass(frozen=True, kw_only=True)
class LatencySplit:
    """One percentile: `amounts_ns` are by account of requests, and add up to `near_ns`."""

    latency: Latency
    percentile: int
    value_ns: float
    near_ns: float  # the mean of the requests that speak for it
    amounts_ns: tuple[float, ...]
    requests: int  # that speak for it; of ITL, tokens

    def share(self, *accounts: int) -> float:
        return sum(self.amounts_ns[account] for account in accounts) / self.near_ns if self.near_ns else 0.0


def latency_splits(ledger: RequestLedger, percentiles: Sequence[int] = PERCENTILES) -> tuple[LatencySplit, ...]:
    """None of a latency that no request has: a single token has no time per token."""
    first, last = ledger.to_first_token, ledger.to_last_token
    several = np.flatnonzero(ledger.tokens > 1)
    per_token = np.maximum(ledger.tokens[several] - 1, 1)
    decoding = (last.amounts_ns - first.amounts_ns)[several] / per_token[:, None]
    found: list[LatencySplit] = []
    for latency, amounts in (
        (Latency.TTFT, first.amounts_ns.astype(float)),
        (Latency.TPOT, decoding),
        (Latency.ITL, ledger.between_tokens_ns.astype(float)),
        (Latency.END_TO_END, last.amounts_ns.astype(float)),
    ):
        if len(amounts):
            found += [_split(latency, percentile, amounts) for percentile in percentiles]
    return tuple(found)


def slowest(splits: Sequence[LatencySplit], latency: Latency) -> LatencySplit | None:
    """None of a latency that no request has."""
    return next((one for one in splits if (one.latency, one.percentile) == (latency, SLOWEST)), None)


def _split(latency: Latency, percentile: int, amounts_ns: npt.NDArray[np.float64]) -> LatencySplit:
    lengths = amounts_ns.sum(axis=1)
    value = float(np.percentile(lengths, percentile))
    chosen: I64 = np.argsort(np.abs(lengths - value), kind="stable")[: max(round(_NEAR * len(lengths)), 1)]
    mean = amounts_ns[chosen].mean(axis=0)
    return LatencySplit(
        latency=latency,
        percentile=percentile,
        value_ns=value,
        near_ns=float(mean.sum()),
        amounts_ns=tuple(mean.tolist()),
        requests=len(chosen),
    )
