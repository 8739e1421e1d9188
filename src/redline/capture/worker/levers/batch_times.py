"""Lever `batch-times`: batches of every DataLoader of a map-style dataset are several times as large."""

from __future__ import annotations

from torch.utils.data import IterableDataset

from redline.capture.worker.levers.data_loaders import LoaderLever

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from redline.capture.worker.levers.data_loaders import Arguments


class LargerBatches(LoaderLever):
    """Frameworks make loaders anew from those of the script: what is larger already stays as it is."""

    def __init__(self, value: str) -> None:
        super().__init__(f"batches {value} times as large")
        self._times = int(value)
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
        """Of a loader that has larger batches already."""
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
