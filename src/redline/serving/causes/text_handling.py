"""RL-V06: the server: tokenising, detokenising, and the ways between it and the engine."""

from collections.abc import Iterator

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount

_ACCOUNTS = (
    RequestAccount.TOKENISE,
    RequestAccount.TO_ENGINE,
    RequestAccount.TO_SERVER,
    RequestAccount.DETOKENISE,
)


def find(served: Served) -> Iterator[ServingCause]:
    yield from share_of(served, RULE.code, Latency.TTFT, _ACCOUNTS, {})


RULE = ServingRule(code="RL-V06", numerics=Numerics.BITWISE, find=find)
