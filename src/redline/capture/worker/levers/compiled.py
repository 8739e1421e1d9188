"""Levers on compiled code and kernels: `compile`, `cuda-graphs` and `sdpa`."""

from __future__ import annotations

from collections import Counter

import torch
from torch.overrides import TorchFunctionMode

from redline.capture.worker.exception_origin import pass_on
from redline.capture.worker.levers.lever import (
    ATTENTION_SEEN,
    COMPILE,
    NOT_CALLED,
    JobLever,
    JobView,
    LeverEffect,
    LinkedLever,
    repeated_blocks,
    unwrapped,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.capture.levers import Lever
    from redline.capture.worker.levers.lever import Call, CallChain, CallChains

_MOST_LETTERS = 160
_ATTENTION = torch.nn.functional.scaled_dot_product_attention
_FLAGS = {"flash": "flash_sdp", "efficient": "mem_efficient_sdp", "math": "math_sdp", "cudnn": "cudnn_sdp"}
_CHOICES = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}  # as torch._fused_sdp_choice tells them
_ON_CPU = ("flash", "math")


class CompiledModules(LinkedLever):
    """Lever `compile`: repeated blocks or the outermost module run as torch.compile makes them.

    Compiles when they are first called with it on. What cannot be compiled runs as it is, and is told.
    """

    place = COMPILE

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._of_blocks = lever.value == "blocks"
        self._what: dict[str, None] = {}
        self._left: dict[str, None] = {}
        self._before: tuple[int, int, int] | None = None  # counts when the first call was compiled
        self._calls = 0
        self._failed = ""
        self._link = self._around

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            for module in self.targets(unwrapped(root), job.chains):
                self.join(job.chains.of(module), self._link)

        job.each_root(found)

    def forget(self) -> None:
        self._calls = 0

    def took(self) -> LeverEffect:
        if self._failed or not self._links:
            why = [self._failed] if self._failed else list(self._left)
            return LeverEffect(False, "; ".join(why) or NOT_CALLED)
        now = _counted()
        graphs, breaks, failed = (count - before for count, before in zip(now, self._before or now, strict=True))
        counts = [f"{graphs} graph{'' if graphs == 1 else 's'} compiled"]
        counts += [f"{breaks} graph breaks"] if breaks else []
        counts += [f"{failed} functions fell back to eager"] if failed else []
        what = f"{'; '.join(self._what)}: {', '.join(counts)}"
        return LeverEffect(bool(graphs and self._calls), "; ".join([what, *self._left]))

    def targets(self, root: torch.nn.Module, chains: CallChains) -> list[torch.nn.Module]:
        name = type(root).__name__
        if _is_compiled(root, chains):
            self.leave(f"{name} is compiled by the script")
            return []
        if any(
            kind.__name__ == "FullyShardedDataParallel" for module in root.modules() for kind in type(module).__mro__
        ):
            self.leave(f"{name} is sharded by FullyShardedDataParallel: compile before it is wrapped")
            return []
        blocks = repeated_blocks(root) if self._of_blocks else []
        if any(_is_compiled(module, chains) for module in root.modules()):
            self.leave(f"parts of {name} are compiled by the script")
            return []
        if blocks:
            names = ", ".join(sorted({type(block).__name__ for block in blocks}))
            self._what[f"{len(blocks)} blocks ({names})"] = None
            return blocks
        self._what[f"{name}, which repeats no blocks" if self._of_blocks else name] = None
        return [root]

    def leave(self, why: str) -> None:
        self._left[why] = None

    def compiled(self, call: Call) -> Call:
        return torch.compile(call)

    def _around(self, call: Call) -> Call:
        compiled = self.compiled(_inlined(call) if _is_of_torch(call) else call)

        def run(*args: Any, **kwargs: Any) -> Any:
            if self._failed:
                return call(*args, **kwargs)
            self._before = self._before or _counted()
            self._calls += 1
            try:
                return compiled(*args, **kwargs)
            except _errors() as error:
                pass_on(error)
                line = f"{type(error).__name__}: {error}".partition("\n")[0]
                self._failed = f"it could not be compiled: {line[:_MOST_LETTERS]}"
            return call(*args, **kwargs)

        return run


def _is_of_torch(call: Call) -> bool:
    """True of a module of torch itself, such as Sequential: the compiler passes over its code."""
    module = getattr(call, "__self__", None)
    return isinstance(module, torch.nn.Module) and type(module).forward.__module__.startswith("torch.nn.")


def _inlined(call: Call) -> Call:
    """A function of ours, of which the compiler takes all."""

    def inlined(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return inlined


def _counted() -> tuple[int, int, int]:
    """Graphs compiled in this process until now, graph breaks, and functions that could not be compiled."""
    from torch._dynamo.utils import counters

    frames = counters["frames"]
    graphs = int(counters["stats"]["unique_graphs"])
    return graphs, sum(counters["graph_break"].values()), int(frames["total"] - frames["ok"])


def _errors() -> type[Exception]:
    from torch._dynamo.exc import TorchDynamoException

    return TorchDynamoException


def _is_compiled(module: torch.nn.Module, chains: CallChains) -> bool:
    """By the script; other levers may have put something around its calls too."""
    return "_orig_mod" in module._modules or chains.of(module).is_scripts


class GraphedModules(CompiledModules):
    """Lever `cuda-graphs`: the kernels of compiled code are launched together, as CUDA graphs.

    torch.compile in its mode `reduce-overhead`, which captures what it compiles where it can.
    """

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


class AttentionBackend(JobLever):
    """Lever `sdpa`: the implementation that scaled_dot_product_attention takes.

    Sets torch's flags; `math` stays on, for calls that the wanted one cannot compute.
    """

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._wanted = lever.value
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
            ours, now = _flags(), _kernel_taken(args, kwargs)
            _set_flags(self._scripts)
            try:
                before = _kernel_taken(args, kwargs)
            finally:
                _set_flags(ours)
            self._seen[before, now] += 1
        return func(*args, **kwargs)


def _kernel_taken(args: Any, kwargs: dict[str, Any]) -> str:
    return _CHOICES.get(int(torch._fused_sdp_choice(*args, **kwargs)), "another")


def _flags() -> dict[str, bool]:
    return {name: bool(getattr(torch.backends.cuda, f"{flag}_enabled")()) for name, flag in _FLAGS.items()}


def _set_flags(flags: dict[str, bool]) -> None:
    for name, is_on in flags.items():
        getattr(torch.backends.cuda, f"enable_{_FLAGS[name]}")(is_on)
