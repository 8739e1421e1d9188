"""RL-V03: tokens come late because prompts of others are computed in the same steps."""

from collections.abc import Iterator

import numpy as np

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule
from redline.serving.latencies import SLOWEST, Latency, slowest
from redline.serving.request_ledger import RequestAccount

_SMALL = 128  # tokens in a step: prompts are cut small already
_LEAST = 0.85  # of the time to the next token: a token that takes a few times as long now and then is usual


def find(served: Served) -> Iterator[ServingCause]:
    steps, stalled = served.ledger.steps, slowest(served.splits, Latency.ITL)
    mixed = (steps.prefill_tokens > 0) & (steps.tokens > steps.prefill_tokens)
    if stalled is None or stalled.share(RequestAccount.OTHERS_PREFILL) < _LEAST:
        return
    if 0 < served.token_limit()[1] <= _SMALL:
        return
    length = steps.end_ns - steps.start_ns
    decoding = (steps.prefill_tokens == 0) & (steps.tokens > 0)
    figures = {
        "mixed_ns": float(np.median(length[mixed])),
        "decode_ns": float(np.median(length[decoding])) if decoding.any() else 0.0,
        "budget": served.token_limit()[1],
        "sequences": served.setting("max_num_seqs"),
        "prefill_tokens": float(steps.prefill_tokens[mixed].max()),
    }
    share = stalled.share(RequestAccount.OTHERS_PREFILL)
    yield ServingCause(
        code=RULE.code,
        latency=Latency.ITL,
        percentile=SLOWEST,
        share=share,
        most=share,
        end_to_end_share=0.0,  # the same tokens of prompts have to be computed
        figures=figures,
    )


RULE = ServingRule(code="RL-V03", numerics=Numerics.REASSOCIATION, find=find)
