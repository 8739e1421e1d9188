"""The modules that the script itself calls and trains: what levers on a model act upon."""

from __future__ import annotations

import torch

from redline.capture.worker.counting.calls import is_optimizer_made

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Then = Callable[[torch.nn.Module], None]

_STEPS_TO_LOOK = 2  # in which every module that is trained is called
_MOST_STEPS = 8  # in which one must be found


class RootModules:
    """Outermost modules with parameters. Where there is an optimizer, only those that are called to be trained."""

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
