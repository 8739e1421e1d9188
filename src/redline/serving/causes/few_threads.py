"""RL-V10: on a CPU, the model computes with fewer threads than there are cores."""

from collections.abc import Iterator

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount

_MOST = 0.75  # of the cores: with more, what is left is for the server
_MODEL = (RequestAccount.PREFILL, RequestAccount.OTHERS_PREFILL, RequestAccount.DECODE, RequestAccount.RECOMPUTE)


def find(served: Served) -> Iterator[ServingCause]:
    workers = max(served.setting("tensor_parallel_size"), 1) * max(served.setting("pipeline_parallel_size"), 1)
    threads, cores = workers * served.setting("threads"), served.setting("cores")
    if served.word("device_type") != "cpu" or not 0 < threads <= _MOST * cores:
        return
    figures = {"threads": threads, "cores": cores}
    yield from share_of(served, RULE.code, Latency.END_TO_END, _MODEL, figures, 1 - threads / cores)


RULE = ServingRule(code="RL-V10", numerics=Numerics.REASSOCIATION, find=find)
