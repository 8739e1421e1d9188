"""How long the operators of a counted module take on a device and on its host, for any micro-batch.

Each call of an operator takes max(FLOPs / compute, bytes / memory) plus a fixed time, with the constants of matmuls:

- No table says what convolutions reach. They are taken to reach what matmuls of 16 bits do; grouped ones reach less.
- FLOPs and bytes grow with the micro-batch, but for the bytes of parameters and of their gradients.
- Bytes are those of the number format that is planned for, whatever format the module was built in. Numbers that a
  format keeps in 32 bits, as statistics of norms, are taken to be as short as the others.
"""

import numpy as np
from numpy.typing import NDArray

from redline.model.counted_module import CountedModule, Operator
from redline.model.model import Column, Number
from redline.planner.train.kernels import kernel_s
from redline.planner.train.time.layer import ATTENTION_BACKWARD
from redline.planner.train.training_rates import Rates

# In the forward pass of a transformer's layer, as torch counts them: 10 in GPT-2, 34 in Llama with its norms and
# rotation written out. What a stack's host needs for a layer, over these, is what it needs for an operator.
OPERATORS_PER_LAYER = 20
# How often the operators of GPT-2's layer read or write its hidden width and its four times as wide feed-forward part:
# two norms and two sums of residuals; an activation function.
COUNTED_HIDDEN, COUNTED_FFN = 10.0, 2.0
# The same of logits in the loss and its gradient: 3 and 5. Stacks have as many forward, and twice as many backward.
LOSSES, COUNTED_LOGITS, PASSES_OF_LOSS = ("log_softmax", "nll_loss"), 8.0, 3.0
# They read some rows of a table, not all of it.
LOOKUPS = ("embedding", "index_select", "gather", "index")
# Backwards, fused attention has 5 products for the 2 of the forward pass; one of them it only computes again.
COUNTED_BACKWARD, NEEDED_BACKWARD = 2.5, 2.0


def operators_s(module: CountedModule, micro_batch: Number, rates: Rates, *, backward: bool) -> Column:
    """Device time of one pass of one micro-batch. `rates` has plain numbers, `micro_batch` may be a column."""
    # Few sizes of micro-batches occur in many layouts.
    sizes, at = np.unique(np.atleast_1d(micro_batch), return_inverse=True)
    chosen = [operator for operator in module.operators if operator.backward == backward]
    total = np.zeros(len(sizes))
    for operator in chosen:
        total += _operator_s(operator, sizes / module.samples, module.number_bytes, rates)
    return total[at]


def _operator_s(operator: Operator, scale: NDArray[np.float64], number_bytes: float, rates: Rates) -> Number:
    """All calls of it, on `scale` times the example inputs."""
    table = 0 if operator.name in LOOKUPS and not operator.backward else operator.parameter_bytes
    moved = scale * (operator.bytes - operator.parameter_bytes) + table
    shorter = rates.number_bytes / number_bytes
    calls = operator.calls
    moved = moved * (1.0 if operator.flops else _stretched(operator, rates))
    flops = scale * done_flops(operator)
    once_s = kernel_s(
        flops / calls, moved * shorter / calls, _compute(operator, rates), rates.memory_bytes_per_s, rates.fixed_s
    )
    return calls * once_s


def _stretched(operator: Operator, rates: Rates) -> Number:
    """What a stack moves in transformers besides matmuls and attention, over what operators count there: more where it
    casts and copies, less where it fuses.
    """
    if operator.name.strip("_").startswith(LOSSES):
        return PASSES_OF_LOSS * rates.logit_passes / COUNTED_LOGITS
    twice = 1.5 if "batch_norm" in operator.name or "group_norm" in operator.name else 1.0
    return twice * (rates.hidden_passes + 4 * rates.ffn_passes) / (COUNTED_HIDDEN + 4 * COUNTED_FFN)


def _compute(operator: Operator, rates: Rates) -> Number:
    if is_attention(operator):
        keys = operator.shapes[2 if operator.backward else 1][-2]
        reached = rates.attention_flops_per_s * keys / (keys + rates.attention_half)
        return reached * COUNTED_BACKWARD / ATTENTION_BACKWARD if operator.backward else reached
    short = rates.matmul_bytes < rates.number_bytes
    return rates.head_flops_per_s if short and "conv" in operator.name else rates.compute_flops_per_s


def is_attention(operator: Operator) -> bool:
    return "attention" in operator.name and operator.flops > 0


def done_flops(operator: Operator) -> float:
    """Without pairs of tokens that causal attention leaves out."""
    return operator.flops * (0.5 if operator.causal else 1.0)


def needed_flops(module: CountedModule) -> float:
    """Of both passes on one sample: nothing that is computed twice."""
    again = NEEDED_BACKWARD / COUNTED_BACKWARD
    every = (
        done_flops(operator) * (again if operator.backward and is_attention(operator) else 1)
        for operator in module.operators
    )
    return sum(every) / module.samples


def host_forward_s(module: CountedModule, rates: Rates) -> Number:
    """What the host needs to launch the forward pass."""
    calls = sum(operator.calls for operator in module.operators if not operator.backward)
    return calls * rates.host_layer_s / OPERATORS_PER_LAYER
