"""Levers around the calls of a module: their order, and what the script has put there itself."""

from collections.abc import Callable
from typing import Any

import torch

from redline.capture.worker.levers.lever import AUTOCAST, COMPILE, LAYOUT, CallChains

Call = Callable[..., Any]


def _link(name: str, seen: list[str]) -> Callable[[Call], Call]:
    def around(call: Call) -> Call:
        seen.append(f"made {name}")

        def called(*args: Any) -> Any:
            seen.append(name)
            return call(*args)

        return called

    return around


def test_links_are_called_from_the_outside_in_and_made_once() -> None:
    module, seen = torch.nn.Identity(), list[str]()
    chain = CallChains().of(module)
    layout, compiled = _link("layout", seen), _link("compile", seen)
    for _ in range(2):
        chain.put(LAYOUT, layout)
        chain.put(COMPILE, compiled)
        assert module(1) == 1
        chain.take(COMPILE)
        chain.take(LAYOUT)
        assert module(2) == 2
    assert [name for name in seen if not name.startswith("made")] == ["layout", "compile"] * 2
    assert seen.count("made compile") == 1
    assert module.__dict__["_compiled_call_impl"] is None


def test_what_the_script_puts_there_stays_and_is_told_from_ours() -> None:
    module, seen = torch.nn.Identity(), list[str]()
    chains = CallChains()
    chain = chains.of(module)
    chain.put(AUTOCAST, _link("autocast", seen))
    assert not chain.is_scripts
    own = module._compiled_call_impl = lambda value: value + 1
    assert chain.is_scripts
    chain.put(LAYOUT, _link("layout", seen))
    assert chains.of(module).is_scripts
    assert module(1) == 2
    chain.take(LAYOUT)
    chain.take(AUTOCAST)
    assert module._compiled_call_impl is own
