"""RL-V01: requests wait though the cache has room, because so many sequences are the limit."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.causes.step_cost import LEAST_FIXED, LEAST_STEPS, fixed_ns
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount

_ROOM = 1.25  # times as many requests as run: below, a higher limit would not be used
_MANY = 2  # times the limit: tokens of prompts in a step that tell what more of them cost
_MOST = 1e9  # requests that an empty cache has room for


def find(served: Served) -> Iterator[ServingCause]:
    steps, (setting, limit) = served.recording.steps, served.sequence_limit()
    at_limit = (steps.waiting > 0) & (steps.running >= limit)
    if not limit or not at_limit.any():
        return
    used = float(steps.cache_share[at_limit].max())
    room = min(limit / used if used else np.inf, _MOST)
    if room < _ROOM * limit:
        return
    figures = {"limit": limit, "room": room, "cache_share": used, "steps_share": float(at_limit.mean())}
    figures["is_active_limit"] = float(setting == "max_num_active_seqs")
    gained = _gained(served, limit)
    if gained < LEAST_FIXED:
        return
    for cause in share_of(served, RULE.code, Latency.TTFT, (RequestAccount.QUEUE,), figures):
        yield replace(cause, end_to_end_share=gained * cause.end_to_end_share)


def _gained(served: Served, limit: float) -> float:
    """Of the queue, by sharing steps: what does not grow with the requests in them. All of it where that is unknown.

    Told by steps with fewer requests, and by what tokens of prompts cost: of many more at once, which is what a higher
    limit gives. The larger counts.
    """
    steps, running = served.ledger.steps, served.recording.steps.running
    length = (steps.end_ns - steps.begin_ns).astype(float)
    generating = (steps.prefill_tokens == 0) & (steps.tokens > 0)
    full = length[generating & (running >= limit)]
    if not len(full):
        return 1.0
    full_ns = float(np.median(full))
    any_ns = fixed_ns(length[generating], running[generating], limit)
    many = steps.prefill_tokens >= _MANY * limit
    if many.sum() >= LEAST_STEPS:
        token_ns = max(float(np.median((length[many] - full_ns) / steps.prefill_tokens[many])), 0.0)
        any_ns = max(any_ns or 0.0, full_ns - limit * token_ns)
    return 1.0 if any_ns is None else min(any_ns / full_ns, 1.0)


RULE = ServingRule(code="RL-V01", numerics=Numerics.REASSOCIATION, find=find)
