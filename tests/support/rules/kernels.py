"""Steps with operators that rules about kernels know."""

from typing import Any

from tests.support.events import Event, document, op
from tests.support.rules.matching import BF16, FP32, described, step


def copying(caller: str, at: float, *, types: tuple[str, str] = (FP32, FP32), strides: Any = None) -> list[Event]:
    """A call of 100 us, of which the copy takes 90."""
    args = described(FP32, [64, 32], [64, 32]) | {"Input Strides": strides or [[32, 1], [32, 1]]}
    args["Input type"] = list(types)
    return [op(caller, at, 100, **described(FP32, [64, 32])), op("aten::copy_", at + 5, 90, **args)]


def job(*events: Event) -> bytes:
    return document([step(0, 0, 1000), op("aten::relu", 0, 300, **described(FP32, [64, 32])), *events])


QK = ("aten::bmm", described(BF16, [4, 128, 64], [4, 64, 128]))
SOFTMAX = ("aten::_softmax", described(BF16, [1, 4, 128, 128], [], []))
PV = ("aten::bmm", described(BF16, [4, 128, 128], [4, 128, 64]))
MASK = ("aten::add", described(BF16, [1, 4, 128, 128], [1, 1, 128, 128], []))
