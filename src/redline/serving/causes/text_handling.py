"""RL-V06: the server: tokenising, detokenising, and the ways between it and the engine."""

from collections.abc import Iterator

from redline.numerics import Numerics
from redline.serving.causes.cause import SERVER_ACCOUNTS, Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency

_LEAST = 0.1  # of the time to the first token: so much is spent by a server with nothing to mend


def find(served: Served) -> Iterator[ServingCause]:
    for cause in share_of(served, RULE.code, Latency.TTFT, SERVER_ACCOUNTS, {}, is_in_steps=False):
        if cause.share >= _LEAST:
            yield cause


RULE = ServingRule(code="RL-V06", numerics=Numerics.BITWISE, find=find)
