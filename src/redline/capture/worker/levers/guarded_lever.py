"""A lever whose failures are told, and leave the job as it was."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from redline.capture.worker.exception_origin import pass_on, tolerated
from redline.capture.worker.levers.lever import LeverEffect
from redline.capture.worker.levers.registry import make_lever

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from redline.capture.worker.levers.lever import JobLever, JobView

_MOST_LETTERS = 200


class GuardedLever:
    """Where it fails once it is switched off, and stays so."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lever: JobLever | None = None
        self._failed = ""

    def install(self, job: JobView) -> None:
        def each_root(then: Callable[[torch.nn.Module], None]) -> None:
            job.each_root(lambda module: self.safely(partial(then, module)))

        def make() -> None:
            self._lever = make_lever(self._text)
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
