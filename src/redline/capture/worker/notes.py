"""Facts and notes of this process for the run's record: versions, layout, model, and what went wrong."""

from __future__ import annotations

import json
import os
import platform
import sys

import torch

from redline.capture.shared_state import STACKS_FD
from redline.capture.worker import memory
from redline.capture.worker.process_context import ProcessContext, process_group
from redline.capture.worker.stacks import has_few_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from torch.optim.optimizer import Optimizer


NO_THREADS = "the process's memory is limited (ulimit -v or -d), so no thread was started to watch it"
_NO_STACKS = "the process may have few files open (ulimit -n), so its stacks are not known if it hangs"
_MOST_NOTES = 20
_MOST_OPTIMIZERS = 8
_MOST_ARGUMENTS = 100  # and letters of each: there is room for 64 KiB in all
_MOST_LETTERS = 200


class Notes:
    """Facts and notes of one process, in the shared state as JSON."""

    def __init__(self, context: ProcessContext) -> None:
        self._context = context
        self._facts: dict[str, object] = {
            "host": platform.node(),
            "versions": _versions(),
            "arguments": [word[:_MOST_LETTERS] for word in sys.orig_argv[:_MOST_ARGUMENTS]],
        }
        self._notes: dict[str, dict[str, object]] = {}
        if has_few_files() and not context.slot.words[STACKS_FD]:
            self.add("no-stacks", _NO_STACKS)
        self._write()

    def add(self, code: str, text: str) -> None:
        """One line that the summary will show; the same thing again is only counted."""
        if code in self._notes:
            self._notes[code]["count"] = int(str(self._notes[code]["count"])) + 1
        elif len(self._notes) < _MOST_NOTES:
            self._notes[code] = {"code": code, "text": text, "count": 1}
        self._write()

    def tell(self, name: str, fact: object) -> None:
        """One more fact, in the place of the one that had this name."""
        self._facts[name] = fact
        self._write()

    def gather_facts(self, optimizers: Iterable[Optimizer], module: str | None) -> None:
        """At the first window: everything that is wrapped, sharded or moved has been by then."""
        if "model" in self._facts:
            return
        known = list(optimizers)
        self._facts |= {
            "model": _model(known, module),
            "layout": _layout(known),
            "memory": memory.of_allocator(),
            "accelerators": [torch.cuda.get_device_name()] if memory.uses_cuda() else [],
        }
        self.learn_rank()
        self._write()

    def forget_model(self) -> None:
        """It was that of other steps."""
        self._facts.pop("model", None)

    def learn_rank(self) -> None:
        """From torch.distributed; without it, the rank is what the launcher said."""
        distributed = process_group()
        self._context.settle(self._context.settings.rank if distributed is None else distributed.get_rank())

    def leave(self) -> None:
        """The process ends: the peaks of its accelerators, and what it held if memory ran out."""
        self._facts["memory"] = memory.of_allocator()
        ran_out = memory.ran_out(getattr(sys, "last_value", None))
        if ran_out:
            self._facts["out_of_memory"] = memory.largest_tensors()
        self._write()
        if ran_out and memory.uses_cuda():
            self._facts["memory_snapshot"] = memory.dump_snapshot(self._context)
            self._write()

    def _write(self) -> None:
        text = json.dumps({**self._facts, "notes": list(self._notes.values())}, default=str)
        self._context.slot.write_facts(text.encode())


def _versions() -> dict[str, object]:
    found: dict[str, object] = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("cuda", "hip"):
        if getattr(torch.version, name, None):
            found[name] = getattr(torch.version, name)
    return found


def _model(optimizers: list[Optimizer], module: str | None) -> dict[str, object]:
    parameters = [one for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]]
    by_type: dict[str, int] = {}
    for parameter in parameters:
        key = str(parameter.dtype).removeprefix("torch.")
        by_type[key] = by_type.get(key, 0) + parameter.numel()
    return {
        "parameters": sum(by_type.values()),
        "parameters_by_type": by_type,
        "devices": sorted({str(parameter.device.type) for parameter in parameters}),
        "optimizers": sorted({type(optimizer).__name__ for optimizer in optimizers[:_MOST_OPTIMIZERS]}),
        "module": module,
    }


def _layout(optimizers: list[Optimizer]) -> dict[str, object]:
    distributed = process_group()
    layout: dict[str, object] = {"world": 1}
    if distributed is not None:
        layout = {
            "world": distributed.get_world_size(),
            "rank": distributed.get_rank(),
            "backend": distributed.get_backend(),
        }
    layout["local_rank"] = int(os.environ.get("LOCAL_RANK", "0"))
    mesh = next(filter(None, (_mesh(optimizer) for optimizer in optimizers)), None)
    if mesh:
        layout["mesh"] = mesh
    return layout


def _mesh(optimizer: Optimizer) -> dict[str, Any] | None:
    """The mesh of parameters that are spread over devices."""
    for group in optimizer.param_groups:
        for one in group["params"]:
            mesh = getattr(one, "device_mesh", None)
            if mesh is not None:
                shape = [int(mesh.size(at)) for at in range(mesh.ndim)]
                return {"names": mesh.mesh_dim_names, "shape": shape, "placements": [str(p) for p in one.placements]}
    return None
