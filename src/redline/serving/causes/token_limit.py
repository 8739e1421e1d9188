"""RL-V07: prompts are cut into pieces so small that most of a step is not spent on their tokens."""

from collections.abc import Iterator

import numpy as np

from redline.numerics import Numerics
from redline.serving.causes.cause import ENGINE_ACCOUNTS, Served, ServingCause, ServingRule, share_of
from redline.serving.causes.step_cost import LEAST_FIXED, LEAST_STEPS, fixed_ns
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount
from redline.serving.step_ledger import StepAccount
from redline.timeline.table import Column

_ACCOUNTS = (
    RequestAccount.QUEUE,
    RequestAccount.NOT_SCHEDULED,
    RequestAccount.PREFILL,
    RequestAccount.OTHERS_PREFILL,
    RequestAccount.DECODE,
    RequestAccount.SAMPLE,
    RequestAccount.WORKER,
    *ENGINE_ACCOUNTS,
)


def find(served: Served) -> Iterator[ServingCause]:
    (setting, limit), steps = served.token_limit(), served.ledger.steps
    cut = _has_cut_prompt(served)
    if not limit or cut.sum() < LEAST_STEPS:
        return
    piece = served.setting("long_prefill_token_threshold")
    if 0 < piece < limit:
        yield from _in_pieces(served, piece, cut)
        return
    length = (steps.end_ns - steps.begin_ns).astype(float)
    model = steps.amounts_ns[:, [StepAccount.PREFILL, StepAccount.DECODE]].sum(axis=1)
    full_ns = float(np.median(length[cut]))
    around_ns = float(np.median((length - model)[cut]))
    any_ns = min(max(fixed_ns(length, steps.tokens, limit) or 0.0, around_ns), full_ns)
    fixed = any_ns / full_ns if full_ns else 0.0
    if fixed < LEAST_FIXED:
        return
    figures = {"limit": limit, "steps_share": float(cut.mean()), "fixed_ns": any_ns, "full_ns": full_ns}
    figures["is_scheduled_limit"] = float(setting == "max_num_scheduled_tokens")
    pieces = _pieces(served, full_tokens=float(np.median(steps.prefill_tokens[cut])))
    yield from share_of(served, RULE.code, Latency.TTFT, _ACCOUNTS, figures, fixed, most_part=1 - 1 / pieces)


def _in_pieces(served: Served, piece: float, cut: Column) -> Iterator[ServingCause]:
    """Each prompt waits for as many steps as it has pieces; at once it would be one step at least."""
    steps, pieces = served.ledger.steps, _pieces(served, piece)
    full_ns = float(np.median((steps.end_ns - steps.begin_ns)[cut]))
    figures = {"limit": piece, "steps_share": float(cut.mean()), "pieces": pieces, "full_ns": full_ns}
    yield from share_of(served, RULE.code, Latency.TTFT, _ACCOUNTS, figures, 1 - 1 / pieces)


def _pieces(served: Served, full_tokens: float) -> float:
    """Steps that the median prompt takes, with so many tokens in each. In one step it could be computed at best."""
    recording = served.recording
    prompts = recording.requests.prompt_tokens[np.unique(recording.batch.request)]
    return max(float(np.median(np.ceil(prompts / max(full_tokens, 1.0)))), 1.0)


def _has_cut_prompt(served: Served) -> Column:
    """Steps in which a prompt got some of its tokens computed, and not its last."""
    recording = served.recording
    batch, prompt = recording.batch, recording.requests.prompt_tokens
    is_cut = batch.computed + batch.tokens < prompt[batch.request]
    found = np.zeros(len(recording.steps), bool)
    found[batch.step[is_cut]] = True
    return found


RULE = ServingRule(code="RL-V07", numerics=Numerics.REASSOCIATION, find=find)
