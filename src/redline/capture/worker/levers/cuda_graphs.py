"""Lever `cuda-graphs`: the kernels of compiled code are launched together, as CUDA graphs."""

from __future__ import annotations

import torch

from redline.capture.worker.levers.compiled import CompiledModules
from redline.capture.worker.levers.lever import LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.capture.worker.levers.call_chain import Call, CallChains


class GraphedModules(CompiledModules):
    """torch.compile in its mode `reduce-overhead`, which captures what it compiles where it can."""

    def took(self) -> LeverEffect:
        effect = super().took()
        skipped = _skipped() if effect.took else 0
        if not skipped:
            return effect
        return LeverEffect(False, f"{skipped} graphs were compiled and not captured: set TORCH_LOGS=cudagraphs")

    def targets(self, root: torch.nn.Module, chains: CallChains) -> list[torch.nn.Module]:
        if not any(parameter.is_cuda for parameter in torch.nn.Module.parameters(root)):
            self.leave("the model is not on a CUDA device")
            return []
        return super().targets(root, chains)

    def compiled(self, call: Call) -> Call:
        return torch.compile(call, mode="reduce-overhead")


def _skipped() -> int:
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["cudagraph_skips"])
