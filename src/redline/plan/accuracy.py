"""How far plans lie from published measurements: `accuracy.json`, which plans and `redline plan validate` quote."""

from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

FILE = files("redline.plan") / "accuracy.json"
RENEWING = "python -m bench.plan"  # the command, in a checkout


class _Sections(msgspec.Struct, frozen=True):
    """Undecoded, as a plan needs one of them."""

    training: msgspec.Raw
    measured: msgspec.Raw
    serving: msgspec.Raw
    validation: msgspec.Raw


@cache
def accuracy_of(section: Literal["training", "measured", "serving", "validation"]) -> Any:
    return msgspec.json.decode(getattr(msgspec.json.decode(FILE.read_bytes(), type=_Sections), section))
