"""RL-V03: tokens come late because prompts of others are computed in the same steps."""

from collections.abc import Iterator

import numpy as np

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount


def find(served: Served) -> Iterator[ServingCause]:
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
        "sequences": served.setting("max_num_seqs"),
        "prefill_tokens": float(steps.prefill_tokens[mixed].max()),
    }
    yield from share_of(served, RULE.code, Latency.TPOT, (RequestAccount.OTHERS_PREFILL,), figures)


RULE = ServingRule(code="RL-V03", numerics=Numerics.REASSOCIATION, find=find)
