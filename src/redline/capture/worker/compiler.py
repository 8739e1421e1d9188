"""What torch.compile must not see."""

from __future__ import annotations

from contextlib import suppress

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def keep_from_compiler(function: Any) -> None:
    """torch.compile neither traces nor compiles it; `torch.compiler.disable` does that too, but is slow to import."""
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = None
    function._torchdynamo_disable_recursive = True
    with suppress(AttributeError):  # in versions of torch that call it otherwise
        frames = torch._C._dynamo.eval_frame
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
