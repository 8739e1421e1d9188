"""The shapes of matmuls, convolutions and attentions that are timed, and what each costs at least."""

from __future__ import annotations

from dataclasses import dataclass

from redline.roofline.operators.attention import visible_pairs


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Counted as `redline.roofline` counts the work of operators: bytes are read and written once each."""

    flops: int
    bytes: int


@dataclass(frozen=True)
class MatmulShape:
    """[m, k] times [k, n]."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def parts(self) -> tuple[int, int, int]:
        """Elements of both operands and of the result."""
        return self.m * self.k, self.k * self.n, self.m * self.n

    def cost(self, operand_bytes: int, result_bytes: int) -> Cost:
        left, right, result = self.parts
        return Cost(flops=2 * left * self.n, bytes=(left + right) * operand_bytes + result * result_bytes)


def product_of(text: str) -> MatmulShape:
    """The matmul that a shape such as 1024x1024x4096 names."""
    m, n, k = map(int, text.split("x"))
    return MatmulShape(m, n, k)


@dataclass(frozen=True)
class Convolution:
    """3x3 with padding, as many channels out as in."""

    batch: int
    channels: int
    size: int

    def __str__(self) -> str:
        return f"{self.batch}x{self.channels}x{self.size}x{self.size}, 3x3"

    def cost(self, element_bytes: int) -> Cost:
        data, weight = self.batch * self.channels * self.size**2, 9 * self.channels**2
        return Cost(flops=2 * data * 9 * self.channels, bytes=(2 * data + weight) * element_bytes)


@dataclass(frozen=True)
class AttentionShape:
    """Of queries, keys and values that are alike in shape."""

    batch: int
    heads: int
    length: int
    size: int
    causal: bool

    def __str__(self) -> str:
        return f"{self.batch}x{self.heads}x{self.length}x{self.size}{', causal' if self.causal else ''}"

    def cost(self, element_bytes: int) -> Cost:
        pairs = visible_pairs(self.length, self.length, 0, None, 0 if self.causal else None)
        rows = self.batch * self.heads
        return Cost(flops=4 * rows * pairs * self.size, bytes=4 * rows * self.length * self.size * element_bytes)


_QUICK_PRODUCTS = (
    MatmulShape(32, 32, 32),  # hardly any work: what a call costs by itself
    MatmulShape(128, 128, 128),
    MatmulShape(256, 256, 256),
    MatmulShape(512, 512, 512),
    MatmulShape(1024, 1024, 1024),
    MatmulShape(4096, 4096, 4096),
    MatmulShape(2048, 1024, 1024),
    MatmulShape(4096, 1024, 1024),
    MatmulShape(2048, 4096, 1024),
    MatmulShape(1, 4096, 4096),
    MatmulShape(8, 4096, 4096),
    MatmulShape(64, 4096, 4096),
)
_MORE_PRODUCTS = (
    MatmulShape(768, 768, 768),
    MatmulShape(2048, 2048, 2048),
    MatmulShape(8192, 8192, 8192),
    # Tall, wide and deep.
    MatmulShape(8192, 1024, 1024),
    MatmulShape(1024, 8192, 1024),
    MatmulShape(1024, 1024, 8192),
    MatmulShape(4096, 4096, 1024),
    MatmulShape(8192, 256, 256),
    # The layers of transformers, in training: tokens, features out, features in.
    MatmulShape(512, 3072, 768),
    MatmulShape(512, 768, 3072),
    MatmulShape(8192, 4096, 4096),
    MatmulShape(8192, 14336, 4096),
    # Decoding: few tokens, and a matrix that caches hardly hold.
    MatmulShape(1, 8192, 8192),
    MatmulShape(16, 8192, 8192),
)


def products(*, quick: bool) -> tuple[MatmulShape, ...]:
    return _QUICK_PRODUCTS if quick else (*_QUICK_PRODUCTS, *_MORE_PRODUCTS)


def convolutions(*, is_cuda: bool, quick: bool) -> tuple[Convolution, ...]:
    """Of ResNet-50, from its first stage to its last."""
    batch = 128 if is_cuda else 8
    layers = (Convolution(batch, 64, 56), Convolution(batch, 256, 14), Convolution(batch, 512, 7))
    return layers[1:2] if quick else layers


def attentions(*, is_cuda: bool, quick: bool) -> tuple[AttentionShape, ...]:
    sizes = ((8, 32, 1024, 128), (2, 32, 4096, 128)) if is_cuda else ((1, 8, 512, 64), (1, 8, 1024, 128))
    return tuple(AttentionShape(*size, causal) for size in (sizes[:1] if quick else sizes) for causal in (False, True))
