"""What a model keeps of each token that it has read, to write the next: keys and values, latents, states."""

import numpy as np

from redline.model.matmuls import present
from redline.model.model import Model, Number


def numbers_per_token(model: Model) -> Number:
    """Per token and attention layer: a key and a value per head of keys; with latent attention only the latent and the
    rotated part of keys, which all heads share.
    """
    latent = present(model.kv_rank)
    plain = model.kv_heads * (model.head_dim + model.value_dim)
    return latent * (model.kv_rank + model.rope_dim) + (1 - latent) * plain


def cache_bytes(model: Model, context: Number, number_bytes: Number = 2) -> Number:
    """Of one sequence of `context` tokens: layers with a window keep no more than it; states keep their size.

    The states of state-space layers are in 4 bytes, their inputs of the convolution in `number_bytes`.
    """
    window = np.minimum(context, model.window + (1 - present(model.window)) * context)
    tokens = (model.attention_layers - model.window_layers) * context + model.window_layers * window
    attention: Number = tokens * numbers_per_token(model) * number_bytes
    channels = model.state_inner + 2 * model.state_groups * model.state_size
    state = 4 * model.state_inner * model.state_size + number_bytes * model.state_conv * channels
    return attention + model.state_layers * state
