"""Levers on data: `workers`, `prefetch`, `pin-memory` and `batch-times` of loaders, and `non-blocking` copies."""

from __future__ import annotations

import io
import multiprocessing
from functools import partial, wraps
from multiprocessing.reduction import ForkingPickler
from weakref import WeakSet

import torch
from torch.utils.data import DataLoader, IterableDataset

from redline.capture.worker.levers.lever import JobLever, JobView, LeverEffect, change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from redline.capture.levers import Lever

    Arguments = dict[str, Any]


class LoaderLever(JobLever):
    """A lever of whole processes: a loader is made once."""

    place = 0  # among other levers on loaders
    what = ""  # it does, `{}` is the value

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._what = self.what.format(lever.value)
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
    """Gives loaders so many workers, which stay between epochs unless the script says otherwise."""

    what = "{} workers"

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._number = int(lever.value)
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
    what = "{} batches ahead per worker"

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._number = int(lever.value)

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

    what = "batches are pinned"

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


class LargerBatches(LoaderLever):
    """Lever `batch-times`: batches of every DataLoader of a map-style dataset are several times as large.

    Frameworks make loaders anew from those of the script: what is larger already stays as it is.
    """

    what = "batches {} times as large"

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._times = int(lever.value)
        self._sizes: dict[int, int] = {}  # as the script has them, by what they became

    def why_not(self, arguments: Arguments) -> str:
        if isinstance(arguments.get("dataset"), IterableDataset):
            return "an iterable dataset is left alone: it may make batches of its own"
        if self._is_copy(arguments):
            return ""
        if arguments.get("batch_sampler") is not None:
            return "a loader is left alone: its batch_sampler is the script's own"
        if arguments.get("batch_size", 1) is None:
            return "a loader is left alone: it makes no batches"
        return self._why_no_more(arguments)

    def change(self, loader: object, arguments: Arguments) -> None:
        if not self._is_copy(arguments):
            given = arguments.get("batch_size", 1)
            arguments["batch_size"] = given * self._times
            self._sizes[given * self._times] = given
            sizes = sorted(self._sizes.items())
            self._what = "; ".join(f"batches of {larger} instead of {size}" for larger, size in sizes)

    def is_used(self, iterator: Any) -> bool:
        size = getattr(iterator._index_sampler, "batch_size", None)
        return size is None or size in self._sizes  # a sampler of a framework may not say it

    def _is_copy(self, arguments: Arguments) -> bool:
        """True of a copy of a loader that has larger batches already."""
        samplers = list(_samplers(arguments.get("batch_sampler")))
        for loader in self._changed:
            if samplers and any(sampler is getattr(loader, "batch_sampler", None) for sampler in samplers):
                return True
            is_same = getattr(loader, "dataset", None) is arguments.get("dataset")
            if not samplers and is_same and loader.batch_size == arguments.get("batch_size", 1):
                return True
        return False

    def _why_no_more(self, arguments: Arguments) -> str:
        size, rows = arguments.get("batch_size", 1), _rows(arguments)
        if rows is None:
            return ""
        if rows <= size:
            return f"a loader gives all of its {rows} rows in one batch already"
        if arguments.get("drop_last") and rows < size * self._times:
            return f"a loader would drop all of its {rows} rows: they do not fill a batch of {size * self._times}"
        return ""


def _samplers(sampler: Any) -> Iterator[object]:
    """A sampler of batches, and those that a framework has put it around."""
    while sampler is not None:
        yield sampler
        sampler = getattr(sampler, "batch_sampler", None)


def _rows(arguments: Arguments) -> int | None:
    source = arguments.get("sampler")
    try:
        return len(arguments["dataset"] if source is None else source)
    except (TypeError, NotImplementedError):  # it does not say
        return None


class CopiesAhead(JobLever):
    """Lever `non-blocking`: copies of pinned tensors to a CUDA device do not hold up the host.

    `Tensor.to` and `Tensor.cuda`, changed only while it is on, as they are called often.

    From memory that is not pinned a copy waits in any case.
    """

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._plain: dict[str, Any] = {}
        self._changed = 0
        self._left: dict[str, None] = {}

    def switch(self, on: bool) -> None:
        if on and not self._plain:
            self._changed = 0
            self._left.clear()
            for name in ("to", "cuda"):
                self._plain[name] = getattr(torch.Tensor, name)
                setattr(torch.Tensor, name, self._wrapped(self._plain[name]))
        elif not on:
            while self._plain:
                setattr(torch.Tensor, *self._plain.popitem())

    def took(self) -> LeverEffect:
        if self._changed:
            return LeverEffect(True, f"{self._changed} copies do not wait")
        if not torch.cuda.is_available():
            return LeverEffect(False, "there is no CUDA device to copy to")
        return LeverEffect(False, "; ".join(self._left) or "no tensor was copied to a CUDA device")

    def _wrapped(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(plain)
        def copied(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            is_on_host = tensor.device.type == "cpu" and not torch.compiler.is_compiling()
            if is_on_host and self._may_run_ahead(tensor, plain, args, kwargs):
                self._changed += 1
                kwargs["non_blocking"] = True
            return plain(tensor, *args, **kwargs)

        return copied

    def _may_run_ahead(self, tensor: torch.Tensor, plain: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        is_to_device, is_given = _asked(plain.__name__, args, kwargs)
        if not is_to_device:
            return False
        if is_given:
            self._left["the script says non_blocking itself"] = None
            return False
        if not tensor.is_pinned():
            self._left["tensors are not pinned: see lever pin-memory"] = None
            return False
        return True


def _asked(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, bool]:
    """A call copies to a CUDA device; and it says whether it waits."""
    is_given = "non_blocking" in kwargs or any(isinstance(value, bool) for value in args)
    if name == "cuda":
        return True, is_given
    places = [*args[:1], *(kwargs[key] for key in ("device", "other") if key in kwargs)]
    return any(_is_cuda(place) for place in places), is_given


def _is_cuda(place: Any) -> bool:
    if isinstance(place, torch.Tensor):
        return place.is_cuda
    if isinstance(place, int) and not isinstance(place, bool):
        return True  # the number of a device
    return isinstance(place, str | torch.device) and torch.device(place).type == "cuda"
