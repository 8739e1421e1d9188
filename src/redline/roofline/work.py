"""Work: what one call of an operator must do, whatever its implementation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Arithmetic and least memory traffic of one call. docs/explanation/work.md says how they are counted."""

    flops: int  # of matmul, convolution and attention; 0 for the others, whose roof is memory
    bytes: int  # each input read once, each output written once
    dtype: str  # of the data: fp64, fp32, fp16, bf16, fp8, fp4, int8; "" for other integers and bool
    family: str
