"""Storages that models and optimizers hold while memory is recorded, with address and size.

No tensor's data is read, and nothing is allocated on a device.
"""

from __future__ import annotations

import re
from itertools import count
from time import time_ns

import torch

from redline.capture.worker.job_facts import ddp_modules
from redline.capture.worker.numbers.module_names import named_modules
from redline.capture.worker.recording.host_evidence import Collector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from torch.optim.optimizer import Optimizer

_MOST_ROWS = 40_000  # of a window: about 2 MB of text
_PARAMETER, _BUFFER, _GRADIENT, _STATE, _BUCKET = range(5)  # as the reader knows them
_COLUMNS = ("time_ns", "kind", "device", "address", "bytes", "name")
_HOST = -1
_DDP = "DistributedDataParallel"
_IS_SHARED = getattr(torch._C, "_is_cow_tensor", lambda _: False)  # torch 2.2 or newer


class HeldTensorsCollector(Collector):
    """Looks at the borders of a window, and whenever an optimizer has stepped: gradients are still there then."""

    key = "held"

    def __init__(
        self, optimizers: Callable[[], Iterable[Optimizer]], outermost: Callable[[], torch.nn.Module | None]
    ) -> None:
        self._optimizers = optimizers
        self._outermost = outermost
        self._is_open = False
        self._buckets: list[tuple[int, int, int]] = []  # of DDP, from before the window
        self._forget()

    def _forget(self) -> None:
        self._columns: dict[str, list[int]] = {name: [] for name in _COLUMNS}
        self._names: dict[str, int] = {}
        self._named: dict[int, str] = {}  # parameters and buffers of the model, by id

    def window_opened(self) -> None:
        self._forget()
        self._is_open = True
        self._buckets = list(_ddp_buckets(self._outermost()))
        self._see(list(self._optimizers()))

    def optimizer_stepped(self, optimizer: Optimizer) -> None:
        if self._is_open:
            self._see([optimizer])

    def window_closed(self) -> None:
        self._see(list(self._optimizers()))
        self._is_open = False

    def abandon(self) -> None:
        self._is_open = False
        self._forget()

    def part(self) -> object:
        columns, names = self._columns, list(self._names)
        self._forget()
        return {**columns, "names": names} if columns["time_ns"] else None

    def _see(self, optimizers: Iterable[Optimizer]) -> None:
        """Each storage once: tied weights are one, and a gradient may be a view of a bucket."""
        at_ns, seen = time_ns(), set[tuple[int, int]]()
        with torch._C.DisableTorchFunction():
            for kind, name, tensor in self._held(optimizers):
                storage = _storage(tensor)
                if storage is None or storage[:2] in seen or len(self._columns["time_ns"]) >= _MOST_ROWS:
                    continue
                seen.add(storage[:2])
                self._add(at_ns, kind, storage, name)
        for bucket in self._buckets:
            self._add(at_ns, _BUCKET, bucket, _DDP)

    def _add(self, at_ns: int, kind: int, storage: tuple[int, int, int], name: str) -> None:
        row = (at_ns, kind, *storage, self._names.setdefault(name, len(self._names)))
        for column, value in zip(_COLUMNS, row, strict=True):
            self._columns[column].append(value)

    def _held(self, optimizers: Iterable[Optimizer]) -> Iterator[tuple[int, str, object]]:
        parameters: dict[int, tuple[str, torch.Tensor]] = {}
        root = self._outermost()
        for kind, name, tensor in () if root is None else _of_model(root):
            if kind == _PARAMETER:
                parameters.setdefault(id(tensor), (name, tensor))
            yield kind, name, tensor
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    name, _ = parameters.setdefault(id(parameter), ("", parameter))
                    yield _PARAMETER, name, parameter
            for parameter, state in optimizer.state.items():
                name = parameters.get(id(parameter), ("", None))[0]
                yield from ((_STATE, name, held) for held in _tensors(state))
        for name, parameter in parameters.values():
            yield _GRADIENT, name, parameter.grad


def _of_model(root: torch.nn.Module) -> Iterator[tuple[int, str, torch.Tensor]]:
    for path, module in named_modules(root):
        for kind, tensors in ((_PARAMETER, module._parameters), (_BUFFER, module._buffers)):
            for own, tensor in tensors.items():
                if tensor is not None:
                    yield kind, f"{path}.{own}".removeprefix("."), tensor


def _tensors(state: object) -> Iterator[object]:
    """Tensors in the state of one parameter: most optimizers have a table of them, some have lists in it."""
    values = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        else:
            yield from _tensors(value)


def _storage(tensor: object) -> tuple[int, int, int] | None:
    """Device, address and size of what a tensor lies in; of a distributed one, of the part that is here."""
    local: Any = getattr(tensor, "_local_tensor", tensor)
    if type(local) not in (torch.Tensor, torch.nn.Parameter) or local.layout is not torch.strided or local.is_meta:
        return None
    if torch._C._functorch.is_functorch_wrapped_tensor(local) or _IS_SHARED(local):  # to ask would copy what is shared
        return None
    storage = local.untyped_storage()
    if not storage.nbytes():
        return None
    return local.device.index if local.device.type != "cpu" else _HOST, storage.data_ptr(), storage.nbytes()


def _ddp_buckets(outermost: torch.nn.Module | None) -> Iterator[tuple[int, int, int]]:
    """Device, address and size. Only C++ knows where they are: addresses are made up, and such that no block has.

    Buckets that gradients are views of are seen with these. Those that DDP will make anew, after its first steps, are
    left out: allocations tell of them.
    """
    addresses = count(1)
    for module in ddp_modules(outermost):
        logged = module._get_ddp_logging_data()
        is_final = logged.get("has_rebuilt_buckets") or module.find_unused_parameters
        if not is_final or module.gradient_as_bucket_view:
            continue
        index = next((parameter.device.index for parameter in module.parameters()), None)
        sizes = str(logged.get("rebuilt_bucket_sizes") or logged.get("bucket_sizes", ""))
        for size in re.findall(r"\d+", sizes):
            yield _HOST if index is None else index, next(addresses), int(size)
