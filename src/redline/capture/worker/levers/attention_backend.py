"""Lever `sdpa`: the implementation that scaled_dot_product_attention takes."""

from __future__ import annotations

from collections import Counter

import torch
from torch.overrides import TorchFunctionMode

from redline.capture.worker.levers.call_chain import ATTENTION_SEEN
from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.capture.worker.levers.call_chain import Call, CallChain, CallChains

_ATTENTION = torch.nn.functional.scaled_dot_product_attention
_FLAGS = {"flash": "flash_sdp", "efficient": "mem_efficient_sdp", "math": "math_sdp", "cudnn": "cudnn_sdp"}
_CHOICES = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}  # as torch._fused_sdp_choice tells them
_ON_CPU = ("flash", "math")


class AttentionBackend:
    """Sets torch's flags; `math` stays on, for calls that the wanted one cannot compute."""

    def __init__(self, value: str) -> None:
        self._wanted = value
        self._is_on = False
        self._scripts = _flags()
        self._why_not = ""
        self._seen: Counter[tuple[str, str]] = Counter()  # by what it would be, and what it is

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            self._why_not = self._why_not or self._why_refused(root, job.chains)
            if not self._why_not:
                chain = job.chains.of(root)
                chain.put(ATTENTION_SEEN, self._looking(chain))
            self.switch(self._is_on)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        if on and not self._why_not:
            now = _flags()
            self._scripts = now if now != self._own() else self._scripts
            _set_flags(self._own())
        elif self._is_on and _flags() == self._own():
            _set_flags(self._scripts)
        self._is_on = on

    def took(self) -> LeverEffect:
        changed = Counter({pair: calls for pair, calls in self._seen.items() if pair[1] == self._wanted != pair[0]})
        if self._why_not or not self._seen:
            return LeverEffect(False, self._why_not or "scaled_dot_product_attention was not called")
        if not changed:
            return LeverEffect(False, f"attention is {self._wanted} without it")
        what = [f"{calls} calls: {now} instead of {before}" for (before, now), calls in sorted(changed.items())]
        others = sum(calls for (_, now), calls in self._seen.items() if now != self._wanted)
        return LeverEffect(True, "; ".join([*what, f"{others} calls fall back to math"] if others else what))

    def _own(self) -> dict[str, bool]:
        return {name: name in (self._wanted, "math") for name in _FLAGS}

    def _why_refused(self, root: torch.nn.Module, chains: CallChains) -> str:
        devices = {parameter.device.type for parameter in torch.nn.Module.parameters(root)}
        if self._wanted not in _ON_CPU and devices <= {"cpu"}:
            return "a CPU has flash and math only"
        if any("_orig_mod" in module._modules or chains.of(module).is_scripts for module in root.modules()):
            return "compiled code has chosen already"
        return ""

    def _looking(self, chain: CallChain) -> Any:
        """Around the first call of a root with it on, in which each call of attention is looked at."""

        def around(call: Call) -> Call:
            def looked_at(*args: Any, **kwargs: Any) -> Any:
                if not self._is_on or self._why_not or torch.compiler.is_compiling():
                    return call(*args, **kwargs)
                chain.take(ATTENTION_SEEN)
                with _Attention(self._scripts, self._seen):
                    output = call(*args, **kwargs)
                self._judge()
                return output

            return looked_at

        return around

    def _judge(self) -> None:
        if self._seen and not any(now == self._wanted for _, now in self._seen):
            self._why_not = f"{self._wanted} can compute none of {self._seen.total()} calls"
            self.switch(True)  # which now leaves the flags to the script


class _Attention(TorchFunctionMode):
    """Sees calls of attention, and asks torch what it takes for them with two settings of its flags."""

    def __init__(self, scripts: dict[str, bool], seen: Counter[tuple[str, str]]) -> None:
        super().__init__()
        self._scripts = scripts
        self._seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is _ATTENTION:
            ours, now = _flags(), _choice(args, kwargs)
            _set_flags(self._scripts)
            try:
                before = _choice(args, kwargs)
            finally:
                _set_flags(ours)
            self._seen[before, now] += 1
        return func(*args, **kwargs)


def _choice(args: Any, kwargs: dict[str, Any]) -> str:
    return _CHOICES.get(int(torch._fused_sdp_choice(*args, **kwargs)), "another")


def _flags() -> dict[str, bool]:
    return {name: bool(getattr(torch.backends.cuda, f"{flag}_enabled")()) for name, flag in _FLAGS.items()}


def _set_flags(flags: dict[str, bool]) -> None:
    for name, is_on in flags.items():
        getattr(torch.backends.cuda, f"enable_{_FLAGS[name]}")(is_on)
