"""Classes of kernels by their names, as a performance engineer groups them: gemm, attention, elementwise and so on."""

import re
from collections.abc import Mapping
from functools import lru_cache

OTHER = "other"
_CLASSES: Mapping[str, str] = {  # the first that matches; an operator of a CPU is its own kernel
    "attention": r"flash|fmha|attention|paged_attn|mha_(fwd|bwd)|sdpa",
    "convolution": r"conv(?!ert)|wgrad|dgrad|winograd|implicit_gemm|nchwToNhwc|nhwcToNchw|batched_transpose_\d",
    "gemm": r"gemm|gemv|cutlass|cublas|nvjet|Cijk_|xmma|matmul|splitKreduce|aten::((add)?b?mm|(add)?mv|linear|dot)\b",
    "optimizer": r"multi_tensor|adam|sgd|lamb|adagrad|optimizer",
    "normalization": r"norm",
    "softmax": r"soft_?max|cross_entropy|nll_loss",
    "embedding": r"embedding|index_select|gather_kernel|indexSelect",
    "copy": r"copy|cat(array|_|$)|transpose|clone|contiguous|to_copy",
    "reduction": r"reduce|::(sum|mean|amax|amin|norm|any|all)\b|scan|sort|topk",
    "elementwise": r"elementwise|pointwise|vectorized|dropout|gelu|silu|relu|fill|::(add|mul|sub|div|pow|sqrt)_?\b",
}
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _CLASSES.items()}
KERNEL_CLASSES = (*_CLASSES, OTHER)


@lru_cache(65_536)
def kernel_class(name: str) -> str:
    """Of a kernel, or of an operator that computes on a CPU."""
    return next((known for known, pattern in _PATTERNS.items() if pattern.search(name)), OTHER)
