"""RL-V02: the cache of keys and values is full: requests lose their place and are computed again, or wait for room."""

from collections.abc import Iterator

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount

_FULL = 0.95  # of the cache


def find(served: Served) -> Iterator[ServingCause]:
    steps = served.recording.steps
    lost = len(served.recording.preemptions.step)
    full = (steps.waiting > 0) & (steps.cache_share >= _FULL) & (steps.running < served.sequence_limit()[1])
    if not lost and not full.any():
        return
    figures = {"preempted": float(lost), "steps_share": float(full.mean())}
    accounts: tuple[RequestAccount, ...] = (RequestAccount.PREEMPTED, RequestAccount.RECOMPUTE)
    if full.any():
        accounts = (*accounts, RequestAccount.QUEUE)
    yield from share_of(served, RULE.code, Latency.END_TO_END if lost else Latency.TTFT, accounts, figures)


RULE = ServingRule(code="RL-V02", numerics=Numerics.REASSOCIATION, find=find)
