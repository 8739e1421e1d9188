"""RL-V05: choosing the next token takes long, because requests ask for more than a token."""

from collections.abc import Iterator

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount

_RARE = 0.05  # of the requests: fewer do not explain what sampling costs
_LATENCIES = (Latency.TPOT, Latency.END_TO_END)  # which of them the slowest wait longer for it
_TEXTS = "logprobs"  # which are also handed out, sent and made texts of
_OF_TEXTS = (RequestAccount.OUTPUTS, RequestAccount.TO_SERVER, RequestAccount.DETOKENISE)


def find(served: Served) -> Iterator[ServingCause]:
    requests = max(len(served.recording.requests), 1)
    asked = {name: count / requests for name, count in served.recording.asked.items()}
    figures = {name: share for name, share in asked.items() if share >= _RARE}
    if not figures:  # logits have to be computed
        return
    accounts = (RequestAccount.SAMPLE, *(_OF_TEXTS if _TEXTS in figures else ()))
    told = [cause for latency in _LATENCIES for cause in share_of(served, RULE.code, latency, accounts, figures)]
    if told:
        yield max(told, key=lambda cause: cause.share)


RULE = ServingRule(code="RL-V05", numerics=Numerics.BITWISE, find=find)
