"""Which parameters of a model are trained: all of them, or with LoRA small adapters beside them. Columns.

Time and memory both count with these: gradients, their traffic and the optimizer are of trained parameters alone.
"""

from dataclasses import fields

import numpy as np

from redline.model.model import Model, Number
from redline.model.parameters import LayerParameters, adapter_parameters, count_parameters, layer_parameters
from redline.planner.train.layout import Layout

# Rank that a source of measured runs leaves out: what NeMo's and PEFT's recipes begin with.
USUAL_RANK = 16


def frozen(layout: Layout) -> Number:
    """1 where the weights of the model are not trained."""
    return np.where(np.asarray(layout.lora) > 0, 1.0, 0.0)


def trained_layer(model: Model, layout: Layout) -> LayerParameters:
    """Trained parameters of an average layer, by how they are spread over devices."""
    whole = layer_parameters(model)
    if not np.any(layout.lora):
        return whole
    adapters, only = adapter_parameters(model, layout.lora), frozen(layout)
    names = [field.name for field in fields(LayerParameters)]
    return LayerParameters(
        **{name: np.where(only == 1, getattr(adapters, name), getattr(whole, name)) for name in names}
    )


def trained_ends(layout: Layout) -> Number:
    """Share of the embedding, the head and all else outside the layers that is trained: adapters leave these alone."""
    return 1.0 - frozen(layout)


def trained_parameters(model: Model, layout: Layout) -> Number:
    """Of the whole model."""
    ends = count_parameters(model).total - model.layers * layer_parameters(model).total
    return model.layers * trained_layer(model, layout).total + trained_ends(layout) * ends
