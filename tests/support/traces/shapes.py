"""The shapes that the profiler records of the operators of a synthetic transformer."""

from tests.support.traces.operators import HEAD_DIM, HIDDEN, IMAGE, SEQUENCE, Op

Shapes = list[list[int]]


def forward_shapes(op: Op, rows: int) -> tuple[Shapes, Shapes]:
    """Input shapes of an operator and of the operator inside it; an empty shape stands for a scalar."""
    if op.weight_shape is not None:
        return _weight_shapes(op, op.weight_shape, rows)
    wide, query, scores = [rows, op.width], _attention_shape(rows), _score_shape(rows)
    batch, heads, length, size = query
    known: dict[str, tuple[Shapes, Shapes]] = {
        "aten::scaled_dot_product_attention": ([query, query, query, [], []], [query, query, query, [], []]),
        "aten::matmul": ([], _batched_shapes(op.reads_scores, batch * heads, length, size)),
        "aten::softmax": ([scores, [], []], [scores, [], []]),
        "aten::masked_fill": ([scores, [], []], []),
        "aten::layer_norm": ([wide, [], [HIDDEN], [HIDDEN], []], [wide, [], [HIDDEN], [HIDDEN], []]),
        "aten::gelu": ([wide, []], []),
        "aten::clone": ([wide, []], [wide, wide, []]),
    }
    return known.get(op.name, ([wide, wide, []], []))


def backward_shapes(op: Op, part: int, rows: int) -> Shapes:
    """Input shapes of the operator inside a node of the backward pass."""
    if op.name == "aten::conv2d":
        return [*_convolution_shapes(op, rows), [], [], [], [], [], []]
    if op.weight_shape is not None:
        inputs, outputs = op.weight_shape
        return [[rows, outputs], [outputs, inputs]] if part == 0 else [[outputs, rows], [rows, inputs]]
    if op.name == "aten::scaled_dot_product_attention":
        return [_attention_shape(rows)] * 5
    if op.inner == "aten::bmm":
        batch, heads, length, size = _attention_shape(rows)
        return _batched_shapes((part == 0) != op.reads_scores, batch * heads, length, size)
    if op.name in ("aten::softmax", "aten::masked_fill"):
        return [_score_shape(rows), _score_shape(rows), [], []]
    return [[rows, op.width], [rows, op.width]]


def _batched_shapes(reads_scores: bool, batch: int, length: int, size: int) -> Shapes:
    """Of a product that makes scores, or of one that reads them."""
    if reads_scores:
        return [[batch, length, length], [batch, length, size]]
    return [[batch, length, size], [batch, size, length]]


def _weight_shapes(op: Op, weight: tuple[int, int], rows: int) -> tuple[Shapes, Shapes]:
    if op.name == "aten::conv2d":
        shapes = _convolution_shapes(op, rows)
        return [*shapes, [], [], [], [], []], [*shapes, [], [], [], [], [], []]
    inputs, outputs = weight
    return [[rows, inputs], [outputs, inputs], [outputs]], [[outputs], [rows, inputs], [inputs, outputs], [], []]


def _attention_shape(rows: int) -> list[int]:
    batch = max(1, rows // SEQUENCE)
    return [batch, HIDDEN // HEAD_DIM, rows // batch, HEAD_DIM]


def _score_shape(rows: int) -> list[int]:
    batch, heads, length, _ = _attention_shape(rows)
    return [batch, heads, length, length]


def _convolution_shapes(op: Op, rows: int) -> Shapes:
    """Images of as many pixels as there are rows, and a kernel of one by one."""
    assert op.weight_shape is not None
    inputs, outputs = op.weight_shape
    return [[max(1, rows // IMAGE**2), inputs, IMAGE, IMAGE], [outputs, inputs, 1, 1]]
