"""RL-V04: the engine's own Python between the calls of the model."""

from collections.abc import Iterator

import numpy as np

from redline.numerics import Numerics
from redline.serving.causes.cause import ENGINE_ACCOUNTS, Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount
from redline.serving.step_ledger import StepAccount

_OF_STEPS = [
    StepAccount.SCHEDULE,
    StepAccount.PREPARE,
    StepAccount.HANDOVER,
    StepAccount.OUTPUTS,
    StepAccount.BETWEEN,
]

_TRACED = (  # a trace function is called for every line: what of it Python's would be is not known
    *ENGINE_ACCOUNTS,
    RequestAccount.PREFILL,
    RequestAccount.OTHERS_PREFILL,
    RequestAccount.DECODE,
    RequestAccount.RECOMPUTE,
    RequestAccount.SAMPLE,
    RequestAccount.WORKER,
)
_LEAST = 0.1  # of the time per token: so much is spent by an engine with nothing to mend


def find(served: Served) -> Iterator[ServingCause]:
    if served.setting("is_traced"):
        yield from share_of(served, RULE.code, Latency.END_TO_END, _TRACED, {"is_traced": 1.0})
        return
    steps = served.ledger.steps
    host_ns = steps.amounts_ns[:, _OF_STEPS].sum(axis=1)
    figures = {
        "host_ns": float(np.median(host_ns)),
        "step_ns": float(np.median(steps.end_ns - steps.start_ns)),
        "is_async": served.setting("async_scheduling"),
    }
    for cause in share_of(served, RULE.code, Latency.TPOT, ENGINE_ACCOUNTS, figures):
        if cause.share >= _LEAST:
            yield cause


RULE = ServingRule(code="RL-V04", numerics=Numerics.BITWISE, find=find)
