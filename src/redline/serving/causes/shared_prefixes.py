"""RL-V08: prompts begin alike, and what they have in common is computed again and again."""

from collections.abc import Iterator

import numpy as np

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.recording import BatchRows
from redline.serving.request_ledger import RequestAccount
from redline.timeline.table import I64

_LEAST_AGAIN = 0.2  # of the tokens of all prompts


def find(served: Served) -> Iterator[ServingCause]:
    recording = served.recording
    of_prompts = max(int(recording.requests.prompt_tokens.clip(min=0).sum()), 1)
    shared = repeated_blocks(recording.prefixes) * served.setting("prefix_tokens") / of_prompts
    found = found_tokens(recording.batch) / of_prompts
    if shared - found < _LEAST_AGAIN:
        return
    figures = {
        "shared": shared,
        "found": found,
        "prompt_tokens": float(of_prompts),
        "is_on": served.setting("enable_prefix_caching"),
        "block_tokens": served.setting("block_size"),
        "compared_tokens": served.setting("prefix_tokens"),
    }
    accounts = (RequestAccount.PREFILL, RequestAccount.OTHERS_PREFILL)
    yield from share_of(served, RULE.code, Latency.TTFT, accounts, figures, min(shared - found, 1.0))


def repeated_blocks(numbers: I64) -> int:
    """Blocks that an earlier prompt began with, too: a block's number stands for all before it as well."""
    return len(numbers) - len(np.unique(numbers))


def found_tokens(batch: BatchRows) -> int:
    """Tokens that a request had in the cache of prefixes when it was computed first."""
    by_step = np.argsort(batch.step, kind="stable")
    _, first = np.unique(batch.request[by_step], return_index=True)
    return int(batch.computed[by_step][first].sum())


RULE = ServingRule(code="RL-V08", numerics=Numerics.REASSOCIATION, find=find)
