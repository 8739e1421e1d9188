"""RL-V13: requests and answers take long between the client and the server, or in the client itself."""

from collections.abc import Iterator

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount


def find(served: Served) -> Iterator[ServingCause]:
    """Known where the client's own file is given."""
    yield from share_of(served, RULE.code, Latency.END_TO_END, (RequestAccount.NETWORK,), {}, is_in_steps=False)


RULE = ServingRule(code="RL-V13", numerics=Numerics.BITWISE, find=find)
