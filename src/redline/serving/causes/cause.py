"""A cause for what requests wait for, with its share of a latency, and what the rules look at."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from redline.numerics import Numerics
from redline.serving.latencies import SLOWEST, Latency, LatencySplit, slowest
from redline.serving.recording import ServingRecording
from redline.serving.request_ledger import RequestAccount, RequestLedger

ENGINE_ACCOUNTS = (
    RequestAccount.SCHEDULE,
    RequestAccount.PREPARE,
    RequestAccount.HANDOVER,
    RequestAccount.OUTPUTS,
    RequestAccount.BETWEEN,
)
"""The engine's own Python, around the model."""
SERVER_ACCOUNTS = (
    RequestAccount.TOKENISE,
    RequestAccount.TO_ENGINE,
    RequestAccount.TO_SERVER,
    RequestAccount.DETOKENISE,
)
"""The process that answers clients, and the ways between it and the engine."""


QUEUE_ACCOUNTS = (
    RequestAccount.QUEUE,
    RequestAccount.CURRENT_STEP,
    RequestAccount.NOT_SCHEDULED,
    RequestAccount.PREEMPTED,
)
"""Waiting for others: shorter where the engine has less to do."""


@dataclass(frozen=True, kw_only=True)
class ServingCause:
    """One cause, and the share of `latency` that requests near the percentile spend on it."""

    code: str
    latency: Latency
    percentile: int
    share: float
    most: float  # that mending it takes off: its share, and all waiting for others where it makes steps longer
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

    def sequence_limit(self) -> tuple[str, float]:
        """How many requests may run at once, with the setting that says it; 0 where it is not known."""
        return self._least("max_num_seqs", "max_num_active_seqs")

    def token_limit(self) -> tuple[str, float]:
        """How many tokens a step may have, likewise."""
        return self._least("max_num_batched_tokens", "max_num_scheduled_tokens")

    def _least(self, *names: str) -> tuple[str, float]:
        known = [(name, self.setting(name)) for name in names if self.setting(name) > 0]
        return min(known, key=lambda one: one[1]) if known else (names[0], 0.0)

    def word(self, name: str) -> str:
        """A setting that is a word; empty where there is none."""
        value = self.recording.settings.get(name)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, kw_only=True)
class ServingRule:
    """Looks for one cause; its code has a page among those of the findings."""

    code: str
    numerics: Numerics  # what the fix does to answers
    find: Callable[[Served], Iterator[ServingCause]]


def share_of(
    served: Served,
    code: str,
    latency: Latency,
    accounts: tuple[RequestAccount, ...],
    figures: Mapping[str, float],
    part: float = 1.0,
    *,
    most_part: float | None = None,
    is_in_steps: bool = True,
) -> Iterator[ServingCause]:
    """What the slowest requests spend in these accounts, or the part of it that the cause explains; and the part that
    mending it takes off at most, where that is another."""
    split, whole = slowest(served.splits, latency), slowest(served.splits, Latency.END_TO_END)
    if split is not None and whole is not None:
        share = part * split.share(*accounts)
        queue = [account for account in QUEUE_ACCOUNTS if is_in_steps and account not in accounts]
        yield ServingCause(
            code=code,
            latency=latency,
            percentile=SLOWEST,
            share=share,
            most=min(max(part, most_part or 0.0) * split.share(*accounts) + split.share(*queue), 1.0),
            end_to_end_share=part * whole.share(*accounts),
            figures=figures,
        )
