"""Levers `workers`, `prefetch` and `pin-memory`: other arguments for every DataLoader that the script makes."""

from __future__ import annotations

import io
import multiprocessing
from functools import partial, wraps
from multiprocessing.reduction import ForkingPickler
from weakref import WeakSet

import torch
from torch.utils.data import DataLoader, IterableDataset

from redline.capture.worker.levers.constructor import change_arguments
from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Arguments = dict[str, Any]


class LoaderLever:
    """Of whole processes: a loader is made once."""

    place = 0  # among other levers on loaders

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_on = False
        self._changed: WeakSet[Any] = WeakSet()
        self._left: dict[str, None] = {}
        self._used = 0

    def install(self, job: JobView) -> None:
        def change(loader: object, arguments: Arguments) -> None:
            job.safely(partial(self._change, loader, arguments))

        change_arguments(DataLoader, self.place, change)
        plain = DataLoader._get_iterator

        @wraps(plain)
        def get_iterator(loader: DataLoader[Any]) -> Any:
            iterator = plain(loader)
            if loader in self._changed and self.is_used(iterator):
                self._used += 1
            return iterator

        DataLoader._get_iterator = get_iterator  # type: ignore[assignment, method-assign]

    def switch(self, on: bool) -> None:
        self._is_on = on

    def took(self) -> LeverEffect:
        left = list(self._left)
        if self._used:
            return LeverEffect(True, "; ".join([self._what, *left]))
        unused = ["no batch was asked for from a loader with it"] if self._changed else ["no DataLoader was made"]
        return LeverEffect(False, "; ".join(left or unused))

    def _change(self, loader: object, arguments: Arguments) -> None:
        if not self._is_on:
            return
        why_not = self.why_not(arguments)
        copied = next((known for known in self._changed if known.dataset is arguments.get("dataset")), None)
        if not why_not:
            self.change(loader, arguments)
            self._changed.add(loader)
        elif copied is not None:
            self.take_over(loader, copied)
        else:
            self._left[why_not] = None

    def take_over(self, loader: object, copied: object) -> None:
        """It is made from one that was changed, with its arguments, as Accelerate does."""
        self._changed.add(loader)

    def why_not(self, arguments: Arguments) -> str:
        raise NotImplementedError

    def change(self, loader: object, arguments: Arguments) -> None:
        raise NotImplementedError

    def is_used(self, iterator: Any) -> bool:
        raise NotImplementedError


class LoaderWorkers(LoaderLever):
    """As many workers as it says, which stay between epochs unless the script says otherwise."""

    def __init__(self, value: str) -> None:
        super().__init__(f"{value} workers")
        self._number = int(value)
        self._staying: WeakSet[Any] = WeakSet()

    def install(self, job: JobView) -> None:
        super().install(job)
        plain = DataLoader.__iter__

        @wraps(plain)
        def iterate(loader: DataLoader[Any]) -> Iterator[Any]:
            # A loader whose workers end with each epoch draws a seed for those of the next one.
            if loader in self._staying and loader._iterator is not None:
                torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
            return plain(loader)

        DataLoader.__iter__ = iterate  # type: ignore[assignment, method-assign]

    def why_not(self, arguments: Arguments) -> str:
        if isinstance(arguments.get("dataset"), IterableDataset):
            return "an iterable dataset is left alone: each worker would give all of its data"
        if arguments.get("num_workers", 0) == self._number:
            return f"a loader has {self._number} workers already"
        if self._number and not _can_be_sent(arguments):
            return "a dataset is left alone: it cannot be pickled for workers that are spawned"
        return ""

    def change(self, loader: object, arguments: Arguments) -> None:
        if not self._number:
            for name in ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context"):
                arguments.pop(name, None)
        elif "persistent_workers" not in arguments:
            arguments["persistent_workers"] = True
            self._staying.add(loader)
        arguments["num_workers"] = self._number

    def take_over(self, loader: object, copied: object) -> None:
        super().take_over(loader, copied)
        if copied in self._staying:
            self._staying.add(loader)

    def is_used(self, iterator: Any) -> bool:
        return len(getattr(iterator, "_workers", ())) == self._number


class LoaderPrefetch(LoaderLever):
    """Batches that each worker loads ahead."""

    place = 1  # after the number of workers

    def __init__(self, value: str) -> None:
        super().__init__(f"{value} batches ahead per worker")
        self._number = int(value)

    def why_not(self, arguments: Arguments) -> str:
        if not arguments.get("num_workers"):
            return "a loader has no workers"
        if (arguments.get("prefetch_factor") or 2) == self._number:  # 2 is torch's default
            return f"a loader has prefetch_factor {self._number} already"
        return ""

    def change(self, loader: object, arguments: Arguments) -> None:
        arguments["prefetch_factor"] = self._number

    def is_used(self, iterator: Any) -> bool:
        return bool(iterator._prefetch_factor == self._number)


class LoaderPinning(LoaderLever):
    """Batches in page-locked memory, from which devices copy without waiting."""

    def __init__(self, value: str) -> None:
        super().__init__("batches are pinned")

    def why_not(self, arguments: Arguments) -> str:
        if not torch.accelerator.is_available():
            return "there is no accelerator to copy to"
        return "a loader pins already" if arguments.get("pin_memory") else ""

    def change(self, loader: object, arguments: Arguments) -> None:
        arguments["pin_memory"] = True

    def is_used(self, iterator: Any) -> bool:
        return bool(iterator._pin_memory)


def _can_be_sent(arguments: Arguments) -> bool:
    """To a worker, which inherits everything where it is forked."""
    context = arguments.get("multiprocessing_context") or multiprocessing.get_start_method()
    method = context if isinstance(context, str) else context.get_start_method()
    if method == "fork":
        return True
    try:
        sent = [arguments.get(name) for name in ("dataset", "collate_fn", "worker_init_fn")]
        ForkingPickler(io.BytesIO()).dump(sent)
    except Exception:  # noqa: BLE001 (of whichever class of the script)
        return False
    return True
