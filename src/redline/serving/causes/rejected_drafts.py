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
    accounts = (RequestAccount.DECODE, RequestAccount.SAMPLE)
    yield from share_of(served, RULE.code, Latency.TPOT, accounts, figures, part, most_part=_most(served))


def _most(served: Served) -> float:
    """Of the model's time and of sampling: all of the former in steps with drafts, where a token beside others may cost
    more than its share, and all of the latter, as each step looks for drafts and checks them."""
    amounts_ns = served.ledger.steps.amounts_ns
    decode_ns, sample_ns = amounts_ns[:, StepAccount.DECODE], int(amounts_ns[:, StepAccount.SAMPLE].sum())
    with_drafts_ns = int(decode_ns[served.recording.steps.drafted > 0].sum())
    return (with_drafts_ns + sample_ns) / max(int(decode_ns.sum()) + sample_ns, 1)


RULE = ServingRule(code="RL-V11", numerics=Numerics.REASSOCIATION, find=find)
