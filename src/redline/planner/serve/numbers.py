"""The numbers of a model that serving reads: matrices by how they are spread, and the cache that a token leaves."""

from dataclasses import dataclass

import numpy as np

from redline.model.kv_cache import numbers_per_token
from redline.model.model import Column, Model, Number
from redline.model.parameters import count_parameters
from redline.planner.serve.numbers_or_columns import column


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Counts of numbers, in columns: one row per model."""

    attention: Column
    """In all attention and state layers."""
    dense: Column
    """In feed-forward parts that every token passes: dense layers, shared experts, routers."""
    experts: Column
    """In all routed experts of all layers."""
    head: Column
    embedding: Column
    """Beside the head; 0 where the head is the embedding."""
    cache_token: Column
    """That a token leaves in the caches of all layers that see everything before."""
    cache_window: Column
    """That a token leaves in the caches of layers that see a window only."""
    cache_heads: Column
    """Into how many parts tensor parallelism can split the cache: a latent has no heads to split."""
    state: Column
    """That a sequence keeps in state layers, whatever its length."""


def numbers(model: Model) -> Numbers:
    counted = count_parameters(model)
    per_token = column(numbers_per_token(model))
    head = column(model.vocab) * model.hidden
    return Numbers(
        attention=column(counted.attention + counted.state),
        dense=column(counted.dense + counted.shared + counted.router),
        experts=column(counted.experts),
        head=head,
        embedding=head * (1 - column(model.tied)),
        cache_token=(column(model.attention_layers) - model.window_layers) * per_token,
        cache_window=column(model.window_layers) * per_token,
        cache_heads=np.where(column(model.kv_rank) > 0, 1.0, column(model.kv_heads)),
        state=column(model.state_layers) * model.state_inner * model.state_size,
    )


def expert_share_touched(experts: Number, per_token: Number, tokens: Number) -> Column:
    """Which share of the experts of a layer `tokens` tokens are expected to need, each choosing `per_token` at random.

    A token leaves an expert out with probability 1 - k/E, so n tokens need the share 1 - (1 - k/E)^n of them.
    """
    experts = column(experts)
    share = np.divide(per_token, experts, out=np.zeros(np.broadcast(per_token, experts).shape), where=experts > 0)
    touched: Column = -np.expm1(column(tokens) * np.log1p(-np.minimum(share, 1 - 1e-12)))
    return touched
