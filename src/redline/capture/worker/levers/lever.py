"""How a lever is switched inside a process of the job, and what levers act upon: roots, calls and constructors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, wraps
from importlib import import_module
from inspect import signature

import torch

from redline.capture.levers import parse_lever
from redline.capture.worker.counting.calls import is_optimizer_made
from redline.capture.worker.exception_origin import pass_on, tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from torch.optim.optimizer import Optimizer

    from redline.capture.levers import Lever

    Call = Callable[..., Any]

    Link = Callable[[Call], Call]

    Then = Callable[[torch.nn.Module], None]

    Change = Callable[[object, dict[str, Any]], None]  # given the object to be made and its arguments by name

CHECKPOINT, COMPILE, AUTOCAST, LAYOUT, OFFLOAD = range(5)  # from the inside out
ATTENTION_SEEN, SHARDS_SEEN, ORDER_SEEN = range(5, 8)  # they only look
NOT_CALLED = "no module with parameters was called outside of compiled code"
_STEPS_TO_LOOK = 2  # in which every module that is trained is called
_MOST_STEPS = 8  # in which one must be found
_changes: dict[type, list[tuple[int, Change]]] = {}
_MOST_LETTERS = 200


@dataclass(frozen=True)
class LeverEffect:
    took: bool
    what: str  # such as "AdamW: fused", or why it changed nothing


@dataclass(frozen=True)
class JobView:
    """The questions that a lever may ask about the job."""

    outermost: Callable[[], torch.nn.Module | None]  # the module that the script calls, as far as it was seen
    optimizers: Callable[[], Iterable[Optimizer]]  # that have stepped
    each_root: Callable[[Callable[[torch.nn.Module], None]], None]  # do it at the first call of an outermost module
    safely: Callable[[Callable[[], None]], None]  # do it in a hook; where it fails, the lever is out
    chains: CallChains  # what levers do around the calls of modules


class CallChain:
    """The links that levers put around the calls of a module, one around the other.

    Of one module. A module calls what it has as `_compiled_call_impl`, which is neither copied nor saved with it.
    """

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
        """The script has put something there."""
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
    """The chains of all modules that levers have to do with, for as long as the process lives."""

    def __init__(self) -> None:
        self._chains: dict[int, tuple[torch.nn.Module, CallChain]] = {}

    def of(self, module: torch.nn.Module) -> CallChain:
        if id(module) not in self._chains:
            self._chains[id(module)] = module, CallChain(module)
        return self._chains[id(module)][1]


class RootModules:
    """The modules that the script itself calls and trains: what levers on a model act upon.

    Outermost modules with parameters. Where there is an optimizer, only those that are called to be trained.
    """

    def __init__(self, listen: Callable[[Then | None], None]) -> None:
        self._listen = listen
        self._then: list[Then] = []
        self._roots: list[torch.nn.Module] = []

    def each(self, then: Then) -> None:
        """Do it in the first call of each, before anything of it runs."""
        if not self._then:
            self._listen(self._called)
        self._then.append(then)
        for root in self._roots:
            then(root)

    def step_ended(self, steps: int) -> None:
        if self._then and steps in (_STEPS_TO_LOOK, _MOST_STEPS) and (self._roots or steps == _MOST_STEPS):
            self._listen(None)

    def _called(self, module: torch.nn.Module) -> None:
        if any(root is module for root in self._roots) or not _is_worked_on(module):
            return
        self._roots.append(module)
        for then in self._then:
            then(module)


def _is_worked_on(module: torch.nn.Module) -> bool:
    parameters = list(torch.nn.Module.parameters(module))
    if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in parameters):
        return True
    return bool(parameters) and not is_optimizer_made()


def unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The model inside of DistributedDataParallel."""
    return module.module if isinstance(module, torch.nn.parallel.DistributedDataParallel) else module


@dataclass(frozen=True)
class BlockList:
    """A list of modules in which blocks are repeated."""

    path: str  # attributes that lead to it from the root, as `named_modules` spells them
    container: torch.nn.Module
    blocks: tuple[torch.nn.Module, ...]


def repeated_blocks(root: torch.nn.Module) -> list[torch.nn.Module]:
    """Modules of one class, each with parts of its own, at least twice in an outermost list; of all such lists."""
    return list(dict.fromkeys(block for known in block_lists(root) for block in known.blocks))


def block_lists(root: torch.nn.Module) -> list[BlockList]:
    """Outermost lists that repeat blocks."""
    return list(_lists(root, ""))


def _lists(module: torch.nn.Module, path: str) -> Iterator[BlockList]:
    children = dict(module.named_children())
    is_list = isinstance(module, torch.nn.ModuleList | torch.nn.Sequential)
    alike = _alike(list(children.values())) if is_list else []
    if alike:
        yield BlockList(path, module, tuple(alike))
    for name, child in children.items():
        if not any(child is block for block in alike):
            yield from _lists(child, f"{path}.{name}" if path else name)


def _alike(children: list[torch.nn.Module]) -> list[torch.nn.Module]:
    kinds = [type(child) for child in children]
    return [child for child in children if kinds.count(type(child)) > 1 and any(True for _ in child.children())]


def change_arguments(kind: type[Any], place: int, change: Change) -> None:
    """Changes the arguments with which the script makes objects of a class.

    Changes are made in the order of their places; subclasses that call the constructor have them too.
    """
    if kind not in _changes:
        _changes[kind] = []
        _wrap(kind, _changes[kind])
    _changes[kind].append((place, change))
    _changes[kind].sort(key=lambda known: known[0])


def _wrap(kind: type[Any], changes: list[tuple[int, Change]]) -> None:
    made = kind.__init__
    known = signature(made)

    @wraps(made)
    def __init__(self: object, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            bound = known.bind(self, *args, **kwargs)
        except TypeError:  # the script has it wrong, and shall hear it from the class itself
            made(self, *args, **kwargs)
            return
        for _, change in changes:
            change(self, bound.arguments)
        made(*bound.args, **bound.kwargs)

    kind.__init__ = __init__


class JobLever:
    """One lever in this process, made when torch has just been imported, and nothing of the script has run with it."""

    def __init__(self, lever: Lever) -> None:
        self.lever = lever
        self._is_on = False

    def install(self, job: JobView) -> None:
        """Put in place what acts while the lever is on."""

    def switch(self, on: bool) -> None:
        """Between two steps, in the training thread; also before the first step, for a lever of a whole process."""
        self._is_on = on
        if on:
            self.forget()

    def forget(self) -> None:
        """It is switched on: what it did before does not count."""

    def took(self) -> LeverEffect:
        """The changes that it made while it was on last, known once a step has run with it."""
        raise NotImplementedError


class LinkedLever(JobLever):
    """One that puts a link around the calls of modules while it is on."""

    place = 0  # of the link, among those of others

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._links: list[tuple[CallChain, Link]] = []

    def join(self, chain: CallChain, link: Link) -> None:
        """`link` is one object for as long as the process lives: the chain knows it by that."""
        self._links.append((chain, link))
        if self._is_on:
            chain.put(self.place, link)

    def switch(self, on: bool) -> None:
        super().switch(on)
        for chain, link in self._links:
            if on:
                chain.put(self.place, link)
            else:
                chain.take(self.place)


class GuardedLever:
    """A lever whose failures are told, and leave the job as it was.

    Where it fails once it is switched off, and stays so.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._lever: JobLever | None = None
        self._failed = ""

    def install(self, job: JobView) -> None:
        def each_root(then: Callable[[torch.nn.Module], None]) -> None:
            job.each_root(lambda module: self.safely(partial(then, module)))

        def make() -> None:
            self._lever = make_lever(parse_lever(self._text))
            self._lever.install(replace(job, each_root=each_root, safely=self.safely))

        self.safely(make)

    def switch(self, on: bool) -> None:
        if self._lever is not None:
            self.safely(partial(self._lever.switch, on))

    def took(self) -> LeverEffect:
        effect = LeverEffect(False, "it was not installed")

        def ask() -> None:
            nonlocal effect
            if self._lever is not None:
                effect = self._lever.took()

        self.safely(ask)
        return LeverEffect(False, self._failed) if self._failed else effect

    def safely(self, act: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            act()
        except BaseException as error:  # noqa: BLE001 (the job goes on without it)
            pass_on(error)
            line = f"{type(error).__name__}: {error}".partition("\n")[0]
            self._failed = line[:_MOST_LETTERS]
            if self._lever is not None:
                with tolerated(Exception):
                    self._lever.switch(False)


def make_lever(lever: Lever) -> JobLever:
    """Make a lever by its declaration. One of the environment was applied before the process began: it is proven."""
    module, _, name = (lever.kind.applied_by or "process_settings:EnvironmentVariables").partition(":")
    kind: type[JobLever] = getattr(import_module(f"redline.capture.worker.levers.{module}"), name)
    return kind(lever)
