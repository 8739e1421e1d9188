"""RL-V05: choosing the next token takes long, because requests ask for more than a token."""

from collections.abc import Iterator

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount

_RARE = 0.05  # of the requests: fewer do not explain what sampling costs


def find(served: Served) -> Iterator[ServingCause]:
    requests = max(len(served.recording.requests), 1)
    asked = {name: count / requests for name, count in served.recording.asked.items()}
    figures = {name: share for name, share in asked.items() if share >= _RARE}
    if not figures:  # logits have to be computed
        return
    yield from share_of(served, RULE.code, Latency.TPOT, (RequestAccount.SAMPLE,), figures)


RULE = ServingRule(code="RL-V05", numerics=Numerics.BITWISE, find=find)
