"""RL-V09: the client asks again only when it has an answer, so that few requests share the engine's steps."""

from collections.abc import Iterator

import numpy as np

from redline.numerics import Numerics
from redline.serving.causes.cause import ENGINE_ACCOUNTS, Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.recording import UNKNOWN_NS
from redline.serving.request_ledger import RequestAccount

_FEW = 4  # times as many sequences are allowed
_ALIKE = 0.9  # of the requests find the same number of others
_AT_ONCE = 0.05  # of a request's time, from the end of an answer to the next request
_LEAST_REQUESTS = 8
_ACCOUNTS = (*ENGINE_ACCOUNTS, RequestAccount.DECODE, RequestAccount.SAMPLE, RequestAccount.WORKER)


def find(served: Served) -> Iterator[ServingCause]:
    times, requests = served.ledger.to_last_token, served.recording.requests
    limit = served.sequence_limit()[1]
    if len(times) < _LEAST_REQUESTS or not limit or served.recording.steps.waiting.any():
        return
    came, queued = requests.came_ns[times.request], requests.queued_ns[times.request]
    start = np.where(came == UNKNOWN_NS, queued, came)
    order = np.argsort(start, kind="stable")
    start, length = start[order], times.length_ns[order]
    ends = np.sort(start + length)
    ended = np.searchsorted(ends, start, side="right")
    together = np.arange(1, len(start) + 1) - ended
    usual = int(np.median(together))
    later = np.flatnonzero(ended > 0)
    if _FEW * usual > limit or len(later) < len(start) - usual or (together == usual).mean() < _ALIKE:
        return
    pause = start[later] - ends[ended[later] - 1]
    if np.median(pause) > _AT_ONCE * np.median(length):
        return
    figures = {"concurrency": float(usual), "limit": limit, "pause_ns": float(np.median(pause))}
    yield from share_of(served, RULE.code, Latency.END_TO_END, _ACCOUNTS, figures, is_in_steps=False)


RULE = ServingRule(code="RL-V09", numerics=Numerics.REASSOCIATION, find=find)
