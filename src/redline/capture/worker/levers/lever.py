"""How a lever is switched inside a process of the job."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    import torch
    from torch.optim.optimizer import Optimizer

    from redline.capture.worker.levers.call_chain import CallChains

    class JobLever(Protocol):
        """One lever in this process."""

        def install(self, job: JobView) -> None:
            """When torch has just been imported, and nothing of the script has run with it."""

        def switch(self, on: bool) -> None:
            """Between two steps, in the training thread; also before the first step, for a lever of a whole process."""

        def took(self) -> LeverEffect:
            """Whether it changed anything while it was on last, known once a step has run with it."""


@dataclass(frozen=True)
class LeverEffect:
    """What a lever did to the job."""

    took: bool
    what: str  # such as "AdamW: fused", or why it changed nothing


@dataclass(frozen=True)
class JobView:
    """What a lever may ask about the job."""

    outermost: Callable[[], torch.nn.Module | None]  # the module that the script calls, as far as it was seen
    at_next_call: Callable[[Callable[[torch.nn.Module], None]], None]  # do it when the next module is called
    optimizers: Callable[[], Iterable[Optimizer]]  # that have stepped
    each_root: Callable[[Callable[[torch.nn.Module], None]], None]  # do it at the first call of an outermost module
    safely: Callable[[Callable[[], None]], None]  # do it in a hook; where it fails, the lever is out
    chains: CallChains  # what levers do around the calls of modules
