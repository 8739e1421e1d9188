"""RL-V08: prompts begin alike, and the cache of prefixes is off: the same tokens are computed again and again."""

from collections.abc import Iterator

import numpy as np

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount
from redline.timeline.table import I64

_LEAST_SHARED = 0.2  # of the tokens of all prompts


def find(served: Served) -> Iterator[ServingCause]:
    recording = served.recording
    of_prompts = int(recording.requests.prompt_tokens.clip(min=0).sum())
    shared = repeated_blocks(recording.prefixes) * served.setting("prefix_tokens") / max(of_prompts, 1)
    if served.setting("enable_prefix_caching") or shared < _LEAST_SHARED:
        return
    figures = {"shared": shared, "prompt_tokens": float(of_prompts)}
    accounts = (RequestAccount.PREFILL, RequestAccount.OTHERS_PREFILL)
    yield from share_of(served, RULE.code, Latency.TTFT, accounts, figures, shared)


def repeated_blocks(numbers: I64) -> int:
    """Blocks that an earlier prompt began with, too: a block's number stands for all before it as well."""
    return len(numbers) - len(np.unique(numbers))


RULE = ServingRule(code="RL-V08", numerics=Numerics.REASSOCIATION, find=find)
