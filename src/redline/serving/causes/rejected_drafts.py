"""RL-V11: most tokens that are drafted for speculation are computed by the model and thrown away."""

from collections.abc import Iterator

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount
from redline.serving.step_ledger import StepAccount

_LOW = 0.5  # of the drafted tokens that are accepted


def find(served: Served) -> Iterator[ServingCause]:
    steps, tokens = served.recording.steps, served.ledger.steps
    drafted, accepted = int(steps.drafted.sum()), int(steps.accepted.sum())
    if not drafted or accepted >= _LOW * drafted:
        return
    generating = max(int((tokens.tokens - tokens.prefill_tokens).sum()), 1)
    figures = {"drafted": float(drafted), "accepted": float(accepted)}
    part = min((drafted - accepted) / generating, 1.0)
    decode_ns = served.ledger.steps.amounts_ns[:, StepAccount.DECODE]
    in_drafting_steps = float(decode_ns[steps.drafted > 0].sum() / max(int(decode_ns.sum()), 1))
    accounts = (RequestAccount.DECODE, RequestAccount.SAMPLE)
    yield from share_of(served, RULE.code, Latency.TPOT, accounts, figures, part, most_part=in_drafting_steps)


RULE = ServingRule(code="RL-V11", numerics=Numerics.REASSOCIATION, find=find)
