"""Lever `autocast`: operators of the outermost module run in a type of 16 bits where torch deems it safe."""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass

import torch
from torch.utils._pytree import tree_flatten, tree_map

from redline.capture.worker.levers.call_chain import AUTOCAST
from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from redline.capture.worker.levers.call_chain import Call, CallChain

_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_MOST_NODES = 20_000  # of the graph of a backward pass, in which operators are looked for that ran so


class Autocast:
    """Around the call of each root. The parameters stay as they are, and the outputs are what they were."""

    def __init__(self, value: str) -> None:
        self._type = _TYPES[value]
        self._chains: list[tuple[CallChain, _CastCall]] = []
        self._is_on = False

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            chain = job.chains.of(root)
            self._chains.append((chain, _CastCall(root, self._type)))
            if self._is_on:
                chain.put(AUTOCAST, self._chains[-1][1].around)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        self._is_on = on
        for chain, call in self._chains:
            if on:
                call.proof = call.why_not = ""
                chain.put(AUTOCAST, call.around)
            else:
                chain.take(AUTOCAST)

    def took(self) -> LeverEffect:
        proofs = [call.proof for _, call in self._chains if call.proof]
        whys = [call.why_not for _, call in self._chains if call.why_not]
        nothing = (
            "no operator ran in it" if self._chains else "no module with parameters was called outside of compiled code"
        )
        return LeverEffect(bool(proofs), "; ".join(dict.fromkeys([*proofs, *whys])) or nothing)


class _CastCall:
    """The call of one root."""

    def __init__(self, root: torch.nn.Module, low: torch.dtype) -> None:
        parameters = [one for one in torch.nn.Module.parameters(root) if one.is_floating_point()]
        self._device = parameters[0].device.type if parameters else "cpu"
        self._types = {parameter.dtype for parameter in parameters}
        self._low = low
        self.around = self._around  # one object, by which the chain knows it
        self.proof = ""
        self.why_not = ""

    def _around(self, call: Call) -> Call:
        def cast(*args: Any, **kwargs: Any) -> Any:
            if not self._may_cast():
                return call(*args, **kwargs)
            with torch.autocast(self._device, self._low):
                output = call(*args, **kwargs)
            if not self.proof:
                self._prove(output)
            return _in_float32(output, self._low)

        return cast

    def _may_cast(self) -> bool:
        if torch.is_autocast_enabled(self._device):
            self.why_not = "the script uses autocast itself"
        elif torch.float32 not in self._types:
            self.why_not = f"the parameters are in {', '.join(sorted(map(_name, self._types)))}"
        return not self.why_not

    def _prove(self, output: object) -> None:
        """By an operator whose result was in this type, or an output that is."""
        tensors = list(_tensors(output))
        for node in _graph(tensors):
            if any(known.dtype == self._low for known in node._input_metadata):
                self.proof = f"{node.name().removesuffix('Backward0')} in {_name(self._low)}"
                return
        if any(tensor.dtype == self._low for tensor in tensors):
            self.proof = f"outputs were in {_name(self._low)}"


def _name(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def _graph(tensors: list[torch.Tensor]) -> Iterator[Any]:
    waiting: list[Any] = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(waiting)
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        yield node
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)


def _tensors(output: object) -> Iterator[torch.Tensor]:
    for leaf in tree_flatten(output)[0]:
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            for field in fields(leaf):
                yield from _tensors(getattr(leaf, field.name))


def _in_float32(output: Any, low: torch.dtype) -> Any:
    """The same with tensors of the lower type in float32; what holds them is copied, never changed."""

    def raised(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.float() if leaf.dtype == low else leaf
        if is_dataclass(leaf) and not isinstance(leaf, type):
            made = copy.copy(leaf)
            for field in fields(leaf):
                object.__setattr__(made, field.name, _in_float32(getattr(leaf, field.name), low))
            return made
        return leaf

    return tree_map(raised, output)
