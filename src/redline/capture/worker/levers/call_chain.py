"""What levers do around the calls of a module, one around the other."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import torch

    Call = Callable[..., Any]
    Link = Callable[[Call], Call]

CHECKPOINT, COMPILE, AUTOCAST, LAYOUT, OFFLOAD = range(5)  # from the inside out
ATTENTION_SEEN, SHARDS_SEEN, ORDER_SEEN = range(5, 8)  # they only look


class CallChain:
    """Of one module. A module calls what it has as `_compiled_call_impl`, which is neither copied nor saved with it."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._plain: Call = module._call_impl  # kept: what was made around it is known by this very object
        self._ours: Call | None = None
        self._scripts: Call | None = None  # what the script has put there itself, with `module.compile()`
        self._links: dict[int, Link] = {}
        self._made: dict[tuple[int, int], tuple[Link, Call, Call]] = {}  # by link and by what is inside of it

    def put(self, place: int, link: Link) -> None:
        self._links[place] = link
        self._build()

    def take(self, place: int) -> None:
        if self._links.pop(place, None) is not None:
            self._build()

    @property
    def is_scripts(self) -> bool:
        """Whether the script has put something there."""
        there = self._module.__dict__.get("_compiled_call_impl")
        return (there if self._ours is None or there is not self._ours else self._scripts) is not None

    def _build(self) -> None:
        attributes = self._module.__dict__
        there = attributes.get("_compiled_call_impl")
        if self._ours is None or there is not self._ours:
            self._scripts = there
        call = self._scripts if self._scripts is not None else self._plain
        for place in sorted(self._links):
            call = self._around(self._links[place], call)
        self._ours = call if self._links else None
        attributes["_compiled_call_impl"] = self._ours if self._links else self._scripts

    def _around(self, link: Link, call: Call) -> Call:
        key = id(link), id(call)
        if key not in self._made:
            self._made[key] = link, call, link(call)
        return self._made[key][2]


class CallChains:
    """Of all modules that levers have to do with, for as long as the process lives."""

    def __init__(self) -> None:
        self._chains: dict[int, tuple[torch.nn.Module, CallChain]] = {}

    def of(self, module: torch.nn.Module) -> CallChain:
        if id(module) not in self._chains:
            self._chains[id(module)] = module, CallChain(module)
        return self._chains[id(module)][1]
