"""What has room on a device: bytes of weights, bytes of cache per sequence, and the most sequences at once."""

import numpy as np

from redline.model.model import Column, Number
from redline.planner.serve.deployment import Deployment
from redline.planner.serve.numbers import numbers
from redline.planner.serve.numbers_or_columns import column
from redline.planner.serve.serving_setup import Setup


def attention_tp(where: Deployment) -> Column:
    """Over how many devices attention is split: all of tp, or one where it is data parallel."""
    return column(where.tp) / where.attention_dp


def weights_bytes(setup: Setup) -> Column:
    """Per device."""
    n, form, where = numbers(setup.model), setup.form, setup.where
    tp = column(where.tp)
    layers = (n.attention / attention_tp(where) + n.dense / tp) * form.layer_bytes
    head_split = np.where(column(where.head_tp) > 0, tp, 1.0)
    ends = (n.head + n.embedding) * form.head_bytes / head_split
    return (layers + n.experts * form.expert_bytes / tp) / where.pp + ends


def cache_bytes(setup: Setup, tokens: Number) -> Column:
    """Of a sequence of `tokens` tokens, over all stages of a pipeline, on each device that holds part of it.

    Heads are split over devices until there is one each; more devices hold copies. A latent has no heads to split.
    State layers keep the same numbers for any length, in 4 bytes each.
    """
    n, where = numbers(setup.model), setup.where
    tokens, window = column(tokens), column(setup.model.window)
    split = np.minimum(attention_tp(where), n.cache_heads)
    seen = np.where(window > 0, np.minimum(tokens, window), tokens)
    kept = (n.cache_token * tokens + n.cache_window * seen) * setup.form.cache_bytes / split
    return kept + n.state * 4 / attention_tp(where)


def most_sequences(setup: Setup, tokens: Number) -> Column:
    """How many sequences of `tokens` tokens have room beside the weights, over the whole copy; below 1: none has."""
    memory = column(setup.device.memory_bytes) * (1 - column(setup.engine.reserve))
    free = memory - weights_bytes(setup)
    stage_bytes = cache_bytes(setup, tokens) / setup.where.pp
    return np.maximum(free, 0.0) / np.maximum(stage_bytes, 1.0) * setup.where.attention_dp
