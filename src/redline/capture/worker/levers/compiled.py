"""Lever `compile`: repeated blocks or the outermost module run as torch.compile makes them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from redline.capture.worker.exception_origin import pass_on
from redline.capture.worker.levers.call_chain import COMPILE
from redline.capture.worker.levers.lever import JobView, LeverEffect
from redline.capture.worker.levers.repeated_blocks import repeated_blocks
from redline.capture.worker.levers.roots import unwrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.capture.worker.levers.call_chain import Call, CallChain, CallChains

_MOST_LETTERS = 160


class CompiledModules:
    """Compiles when they are first called with it on. What cannot be compiled runs as it is, and is told."""

    def __init__(self, value: str) -> None:
        self._of_blocks = value == "blocks"
        self._is_on = False
        self._chains: list[CallChain] = []
        self._what: dict[str, None] = {}
        self._left: dict[str, None] = {}
        self._before: _Counts | None = None  # when the first call was compiled
        self._calls = 0
        self._failed = ""
        self._link = self._around  # one object, by which chains know it

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            for module in self.targets(unwrapped(root), job.chains):
                chain = job.chains.of(module)
                self._chains.append(chain)
                if self._is_on:
                    chain.put(COMPILE, self._link)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        self._is_on = on
        self._calls = 0 if on else self._calls
        for chain in self._chains:
            if on:
                chain.put(COMPILE, self._link)
            else:
                chain.take(COMPILE)

    def took(self) -> LeverEffect:
        if self._failed or not self._chains:
            why = [self._failed] if self._failed else list(self._left)
            return LeverEffect(False, "; ".join(why) or "no module with parameters was called outside of compiled code")
        graphs, breaks, failed = _counted().since(self._before)
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
        if any(_is_flat_shard(module) for module in root.modules()):
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
    """Of a module of torch itself, such as Sequential: the compiler passes over its code."""
    module = getattr(call, "__self__", None)
    return isinstance(module, torch.nn.Module) and type(module).forward.__module__.startswith("torch.nn.")


def _inlined(call: Call) -> Call:
    """A function of ours, of which the compiler takes all."""

    def inlined(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return inlined


@dataclass(frozen=True)
class _Counts:
    """Of this process until now: graphs compiled, graph breaks, and functions that could not be compiled."""

    graphs: int
    breaks: int
    failed: int

    def since(self, before: _Counts | None) -> tuple[int, int, int]:
        if before is None:
            return 0, 0, 0
        return self.graphs - before.graphs, self.breaks - before.breaks, self.failed - before.failed


def _counted() -> _Counts:
    from torch._dynamo.utils import counters

    frames = counters["frames"]
    graphs = int(counters["stats"]["unique_graphs"])
    return _Counts(graphs, sum(counters["graph_break"].values()), int(frames["total"] - frames["ok"]))


def _errors() -> type[Exception]:
    from torch._dynamo.exc import TorchDynamoException

    return TorchDynamoException


def _is_compiled(module: torch.nn.Module, chains: CallChains) -> bool:
    """By the script; other levers may have put something around its calls too."""
    return "_orig_mod" in module._modules or chains.of(module).is_scripts


def _is_flat_shard(module: torch.nn.Module) -> bool:
    return any(kind.__name__ == "FullyShardedDataParallel" for kind in type(module).__mro__)
