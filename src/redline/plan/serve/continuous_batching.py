"""Continuous batching: what traffic sees when decode steps of all requests take turns with passes over new prompts.

A request that ends makes room for the next, whose prompt is passed while the others wait. So in the time of its own O
tokens each request sits through B - 1 prompts of others:

    time per token = step(B) + (B - 1) / O * prompt

and B requests deliver B * O tokens in the time that one of them is there: O * step(B) + B * prompt.

Stages of a pipeline work at once, each for its share of the requests: a step is of B / pp sequences, and a prompt holds
up the others for one stage's part of it only.
"""

from dataclasses import dataclass, replace

import numpy as np

from redline.model.model import Column
from redline.plan.serve.forward_passes import (
    PassTime,
    ServeOutcome,
    cache_bytes,
    decode_pass,
    most_sequences,
    prompt_pass,
    weights_bytes,
)
from redline.plan.serve.setup import Setup, Traffic, column, ratio


@dataclass(frozen=True, kw_only=True)
class _Turns:
    """How steps and prompts take turns."""

    batch: Column
    step: PassTime
    turn: PassTime
    """The pass over the prompts that come in between two steps."""
    together: Column
    """How many prompts that is; on average below 1 they still come one at a time."""
    between_s: Column
    """What one of them costs the others."""


def serve(setup: Setup, traffic: Traffic) -> ServeOutcome:
    """What one copy of the model does with this traffic."""
    prompt, output = column(traffic.prompt), column(traffic.output)
    halfway = prompt + output / 2
    most = np.floor(most_sequences(setup, prompt + output))
    turns = _turns(setup, traffic, _batch(most, setup, traffic), halfway)
    batch, step = turns.batch, turns.step
    # Of the first wave, half of the prompts came before: that is waiting for the first token, not for further ones.
    after = 1 - _first_wave(batch, traffic) / 2
    tpot = step.total_s + (batch - 1) / output * turns.between_s * after
    stay = output * step.total_s + batch * turns.between_s
    ttft = _first_token(setup, traffic, turns, stay)
    tokens_per_s = batch * output / stay * _filled(setup, traffic, turns, halfway)
    return ServeOutcome(
        batch=batch,
        most=most,
        fits=(most >= 1).astype(np.float64),
        ttft_s=ttft,
        tpot_s=tpot,
        step=step,
        prompt=_prompts(setup, prompt, column(1.0)),
        tokens_per_s=tokens_per_s,
        tokens_per_s_device=tokens_per_s / (column(setup.where.tp) * setup.where.pp),
        tokens_per_s_user=1 / tpot,
        latency_s=ttft + (output - 1) * tpot,
        weights_bytes=weights_bytes(setup),
        cache_bytes=cache_bytes(setup, halfway) / setup.where.pp * batch / setup.where.attention_dp,
    )


def best(setup: Setup, traffic: Traffic) -> ServeOutcome:
    """The most output per second: as many sequences as memory has room for."""
    return serve(setup, replace(traffic, concurrency=np.inf))


def _batch(most: Column, setup: Setup, traffic: Traffic) -> Column:
    """Sequences in flight: as many as are asked for, have room, may be, and are there at all."""
    requests = column(traffic.requests)
    there = np.where(requests > 0, requests, np.inf)
    allowed = np.minimum(column(setup.engine.most), there)
    return np.maximum(np.minimum(np.minimum(column(traffic.concurrency), most), allowed), 1.0)


def _turns(setup: Setup, traffic: Traffic, batch: Column, context: Column) -> _Turns:
    prompt, pp = column(traffic.prompt), column(setup.where.pp)
    together = np.maximum(1.0, np.minimum(batch / traffic.output, setup.engine.chunk / prompt))
    turn = _prompts(setup, prompt, together)
    return _Turns(
        batch=batch,
        step=decode_pass(setup, np.maximum(batch / pp, 1.0), context),
        turn=turn,
        together=together,
        between_s=(turn.total_s - turn.overhead_s * setup.engine.prompt_hidden) / together / pp,
    )


def _prompts(setup: Setup, prompt: Column, count: Column) -> PassTime:
    """All of `count` prompts: in one pass, or in as many as chunks of the engine's size need."""
    tokens = count * prompt
    passes = np.maximum(np.ceil(tokens / setup.engine.chunk), 1.0)
    return prompt_pass(setup, tokens / passes, prompt).times(passes)


def _first_wave(batch: Column, traffic: Traffic) -> Column:
    """Which share of all requests is in the first wave."""
    return np.minimum(ratio(batch, traffic.requests), 1.0)


def _filled(setup: Setup, traffic: Traffic, turns: _Turns, context: Column) -> Column:
    """Which share of the full rate is reached over all requests, as the last wave takes steps as well.

    All of one length end in waves of the batch: w whole ones, and one of what is left over, whose steps are hardly
    shorter. So N requests take w + last/step waves' time where N/B would do.
    """
    requests, batch = column(traffic.requests), turns.batch
    left = requests % batch
    last = decode_pass(setup, np.maximum(left / setup.where.pp, 1.0), context).total_s
    waves = np.floor(requests / batch) + np.where(left > 0, last / turns.step.total_s, 0.0)
    return np.where(requests > 0, np.minimum(ratio(requests / batch, waves), 1.0), 1.0)


def _first_token(setup: Setup, traffic: Traffic, turns: _Turns, stay: Column) -> Column:
    """Mean time to the first token.

    A request that replaces another waits for the step that is running, half of it on average, and for its own prompt.
    The first wave arrives at once: its prompts are passed in full chunks, and on average a request waits for half of
    them. Where more are in flight than have room, each also waits for those before it: (C - B) / B stays.
    """
    concurrency, prompt, batch = column(traffic.concurrency), column(traffic.prompt), turns.batch
    steady = np.where(batch > 1, turns.step.total_s / 2, 0.0) + turns.turn.total_s
    full = np.maximum(1.0, np.minimum(batch, np.floor(setup.engine.chunk / prompt)))
    waiting = _prompts(setup, prompt, full).total_s * (batch / full + 1) / 2
    first = np.where(batch > 1, waiting, turns.turn.total_s)
    share = _first_wave(batch, traffic)
    queue = np.where(np.isfinite(concurrency), np.maximum(concurrency - batch, 0.0), 0.0) / batch * stay
    return setup.engine.request_s + (1 - share) * steady + share * first + queue
