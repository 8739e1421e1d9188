"""RL-V06: the server: tokenising, detokenising, and the ways between it and the engine."""

from collections.abc import Iterator

from redline.numerics import Numerics
from redline.serving.causes.cause import SERVER_ACCOUNTS, Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency


def find(served: Served) -> Iterator[ServingCause]:
    yield from share_of(served, RULE.code, Latency.TTFT, SERVER_ACCOUNTS, {}, is_in_steps=False)


RULE = ServingRule(code="RL-V06", numerics=Numerics.BITWISE, find=find)
