"""Encoders: BERT, with the head that predicts masked tokens."""

from dataclasses import replace

from redline.model.families.decoder import decoder, replace_values
from redline.model.fields import Fields
from redline.model.model import Model


def bert(config: Fields) -> Model:
    """Sees both directions; learned positions and kinds of tokens, biases everywhere, a norm after the embedding and
    after each part. Its head: a square matrix with bias, a norm, the embedding transposed, a bias per token.
    """
    model = decoder(replace_values(config, num_key_value_heads=None), tied=True)
    h, layers, vocab = model.hidden, model.layers, model.vocab
    kinds = config.count("type_vocab_size", default=2) * h
    return replace(
        model,
        causal=0,
        gated=0,
        positions=config.count("max_position_embeddings", default=512),
        attention_bias=4 * h,
        ffn_bias=1,
        norm_weights=2 * (2 * layers + 2) * h,
        head_dense=1,
        other_parameters=kinds + h + vocab,
    )
