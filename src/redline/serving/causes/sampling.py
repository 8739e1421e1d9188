"""RL-V05: logits and the choice of the next token take long, and what requests ask for besides."""

from collections.abc import Iterator

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount


def find(served: Served) -> Iterator[ServingCause]:
    requests = max(len(served.recording.requests), 1)
    figures = {name: count / requests for name, count in served.recording.asked.items()}
    yield from share_of(served, RULE.code, Latency.TPOT, (RequestAccount.SAMPLE,), figures)


RULE = ServingRule(code="RL-V05", numerics=Numerics.BITWISE, find=find)
