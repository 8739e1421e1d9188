"""Why requests wait: causes that an engine's own records show, each with its share of a latency."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from redline.serving.latencies import SLOWEST, Latency, LatencySplit, slowest
from redline.serving.recording import ServingRecording
from redline.serving.request_ledger import RequestAccount, RequestLedger
from redline.serving.step_ledger import StepAccount

LEAST_SHARE = 0.05  # of a latency: less is not worth a finding
_FULL = 0.95  # of the cache
_ROOM = 1.25  # times as many requests as run: below, a higher limit would not be used
_OF_HOST = (StepAccount.SCHEDULE, StepAccount.PREPARE, StepAccount.OUTPUTS, StepAccount.BETWEEN)


@dataclass(frozen=True, kw_only=True)
class ServingCause:
    """One cause, and the share of `latency` that requests near the percentile spend on it.

    That is no bound on what mending it gains: with shorter steps the queue is shorter, too.
    """

    code: str
    latency: Latency
    percentile: int
    share: float
    end_to_end_share: float  # of the slowest requests from arrival to their last token: causes are ordered by it
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Served:
    """What the rules look at."""

    recording: ServingRecording
    ledger: RequestLedger
    splits: tuple[LatencySplit, ...]

    def setting(self, name: str) -> float:
        """A figure of the engine; 0 where it has none."""
        value = self.recording.settings.get(name, 0)
        return float(value) if isinstance(value, (int, float)) else 0.0


def causes_of(served: Served) -> tuple[ServingCause, ...]:
    """The one that costs the slowest requests most comes first."""
    found = [cause for rule in _RULES for cause in rule(served) if cause.share >= LEAST_SHARE]
    return tuple(sorted(found, key=lambda cause: -cause.end_to_end_share))


def _of_split(
    served: Served, code: str, latency: Latency, accounts: tuple[RequestAccount, ...], figures: Mapping[str, float]
) -> Iterator[ServingCause]:
    """The share of these accounts in the slowest requests."""
    split, whole = slowest(served.splits, latency), slowest(served.splits, Latency.END_TO_END)
    if split is not None and whole is not None:
        yield ServingCause(
            code=code,
            latency=latency,
            percentile=SLOWEST,
            share=split.share(*accounts),
            end_to_end_share=whole.share(*accounts),
            figures=figures,
        )


def _too_few_sequences(served: Served) -> Iterator[ServingCause]:
    """Requests wait though the cache has room: the limit of sequences is what they wait for."""
    steps, limit = served.recording.steps, served.setting("max_num_seqs")
    at_limit = (steps.waiting > 0) & (steps.running >= limit)
    if not limit or not at_limit.any():
        return
    used = float(steps.cache_share[at_limit].max())
    room = limit / used if used else np.inf
    if room < _ROOM * limit:
        return
    figures = {"limit": limit, "room": min(room, 1e9), "cache_share": used, "steps_share": float(at_limit.mean())}
    yield from _of_split(served, "RL-V01", Latency.TTFT, (RequestAccount.QUEUE,), figures)


def _cache_full(served: Served) -> Iterator[ServingCause]:
    """Requests lose their place and are computed again, or wait for room."""
    steps = served.recording.steps
    lost = len(served.recording.preemptions.step)
    full = (steps.waiting > 0) & (steps.cache_share >= _FULL) & (steps.running < served.setting("max_num_seqs"))
    if not lost and not full.any():
        return
    figures = {"preempted": float(lost), "steps_share": float(full.mean())}
    accounts: tuple[RequestAccount, ...] = (RequestAccount.PREEMPTED, RequestAccount.RECOMPUTE)
    if full.any():
        accounts = (*accounts, RequestAccount.QUEUE)
    yield from _of_split(served, "RL-V02", Latency.END_TO_END if lost else Latency.TTFT, accounts, figures)


def _stalled_decodes(served: Served) -> Iterator[ServingCause]:
    """Tokens come late because prompts of others are computed in the same steps."""
    steps = served.ledger.steps
    mixed = (steps.prefill_tokens > 0) & (steps.tokens > steps.prefill_tokens)
    if not mixed.any():
        return
    length = steps.end_ns - steps.start_ns
    decoding = (steps.prefill_tokens == 0) & (steps.tokens > 0)
    figures = {
        "mixed_ns": float(np.median(length[mixed])),
        "decode_ns": float(np.median(length[decoding])) if decoding.any() else 0.0,
        "budget": served.setting("max_num_batched_tokens"),
        "prefill_tokens": float(steps.prefill_tokens[mixed].max()),
    }
    yield from _of_split(served, "RL-V03", Latency.TPOT, (RequestAccount.OTHERS_PREFILL,), figures)


def _host_per_step(served: Served) -> Iterator[ServingCause]:
    """The engine's own Python between the calls of the model."""
    steps = served.ledger.steps
    host_ns = steps.amounts_ns[:, list(_OF_HOST)].sum(axis=1)
    figures = {"host_ns": float(np.median(host_ns)), "step_ns": float(np.median(steps.end_ns - steps.start_ns))}
    accounts = (RequestAccount.SCHEDULE, RequestAccount.PREPARE, RequestAccount.OUTPUTS, RequestAccount.BETWEEN)
    yield from _of_split(served, "RL-V04", Latency.TPOT, accounts, figures)


def _sampling(served: Served) -> Iterator[ServingCause]:
    yield from _of_split(served, "RL-V05", Latency.TPOT, (RequestAccount.SAMPLE,), {})


def _texts(served: Served) -> Iterator[ServingCause]:
    """Tokenising and detokenising, and the ways between server and engine."""
    accounts = (
        RequestAccount.TOKENISE,
        RequestAccount.TO_ENGINE,
        RequestAccount.TO_SERVER,
        RequestAccount.DETOKENISE,
    )
    yield from _of_split(served, "RL-V06", Latency.TTFT, accounts, {})


_RULES: tuple[Callable[[Served], Iterator[ServingCause]], ...] = (
    _too_few_sequences,
    _cache_full,
    _stalled_decodes,
    _host_per_step,
    _sampling,
    _texts,
)
