"""RL-V07: prompts are cut into pieces so small that most of a step is not spent on their tokens."""

from collections.abc import Iterator

import numpy as np

from redline.numerics import Numerics
from redline.serving.causes.cause import ENGINE_ACCOUNTS, Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount
from redline.serving.step_ledger import StepAccount
from redline.timeline.table import I64, Column

_LEAST_FIXED = 0.25  # of a full step that does not grow with its tokens: below, larger pieces gain little
_LEAST_STEPS = 8  # to tell what a token costs
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
    if not limit or cut.sum() < _LEAST_STEPS:
        return
    length = (steps.end_ns - steps.begin_ns).astype(float)
    model = steps.amounts_ns[:, [StepAccount.PREFILL, StepAccount.DECODE]].sum(axis=1)
    full_ns = float(np.median(length[cut]))
    around_ns = float(np.median((length - model)[cut]))
    fixed_ns = min(max(_fixed_ns(length, steps.tokens, limit), around_ns), full_ns)
    fixed = fixed_ns / full_ns if full_ns else 0.0
    if fixed < _LEAST_FIXED:
        return
    figures = {"limit": limit, "steps_share": float(cut.mean()), "fixed_ns": fixed_ns, "full_ns": full_ns}
    figures["is_scheduled_limit"] = float(setting == "max_num_scheduled_tokens")
    yield from share_of(served, RULE.code, Latency.TTFT, _ACCOUNTS, figures, fixed)


def _has_cut_prompt(served: Served) -> Column:
    """Steps in which a prompt got some of its tokens computed, and not its last."""
    recording = served.recording
    batch, prompt = recording.batch, recording.requests.prompt_tokens
    is_cut = batch.computed + batch.tokens < prompt[batch.request]
    found = np.zeros(len(recording.steps), bool)
    found[batch.step[is_cut]] = True
    return found


def _fixed_ns(length_ns: Column, tokens: I64, limit: float) -> float:
    """What a step takes however few its tokens are: of the line through steps of few and of many. 0 where all are full.

    What a step takes around the model is known besides.
    """
    few, many = tokens <= limit / 4, tokens >= limit / 2
    if few.sum() < _LEAST_STEPS or many.sum() < _LEAST_STEPS:
        return 0.0
    low, high = float(np.median(tokens[few])), float(np.median(tokens[many]))
    at_low, at_high = float(np.median(length_ns[few])), float(np.median(length_ns[many]))
    return max(at_low - low * (at_high - at_low) / (high - low), 0.0)


RULE = ServingRule(code="RL-V07", numerics=Numerics.REASSOCIATION, find=find)
