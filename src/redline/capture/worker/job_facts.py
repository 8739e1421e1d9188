"""Facts of the job as the script has set it up: optimizers, loaders, DDP, FSDP, compilation, modes, allocator.

Each part may be missing. No tensor's data is read, and nothing is imported that the script has not imported.
"""

from __future__ import annotations

import os
import sys
from itertools import islice

import torch

from redline.capture.worker.exception_origin import tolerated
from redline.capture.worker.recording.host_evidence import Collector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from torch.optim.optimizer import Optimizer

_MOST = 8  # of each kind of thing
_MOST_REASONS = 16
_MOST_LETTERS = 200
_MOST_MODULES = 4096  # that are looked through for units of FSDP: about a millisecond
_SWITCHES_CACHING_OFF = ("PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING")


class JobFactsCollector(Collector):
    """Looks at what comes by while a window is open, each thing once. A part of the host evidence."""

    key = "facts"

    def __init__(self, outermost: Callable[[], torch.nn.Module | None]) -> None:
        self._outermost = outermost  # the module that the script calls
        self._is_open = False
        self._optimizers: dict[int, dict[str, object]] = {}
        self._loaders: dict[int, dict[str, object]] = {}
        self._modes: dict[str, object] = {}

    def window_opened(self) -> None:
        self._is_open = True
        self._optimizers.clear()
        self._loaders.clear()
        self._modes = {}

    def abandon(self) -> None:
        self._is_open = False

    def optimizer_stepped(self, optimizer: Optimizer) -> None:
        """It has just stepped: gradients that the script clears afterwards are still there."""
        if self._is_open and id(optimizer) not in self._optimizers and len(self._optimizers) < _MOST:
            self._optimizers[id(optimizer)] = {}
            with tolerated(Exception), _behind_function_modes():
                self._optimizers[id(optimizer)] = optimizer_facts(optimizer)

    def loader_asked(self, iterator: object) -> None:
        if self._is_open and id(iterator) not in self._loaders and len(self._loaders) < _MOST:
            self._loaders[id(iterator)] = {}
            with tolerated(Exception):
                self._loaders[id(iterator)] = loader_facts(iterator)

    def called(self, module: torch.nn.Module) -> None:
        """Modes are those of a call: scripts switch them on around the model."""
        if self._is_open and not self._modes:
            with tolerated(Exception):
                self._modes = mode_facts(module)

    def part(self) -> dict[str, object]:
        outermost = self._outermost()
        facts: dict[str, object] = {
            "optimizers": [known for known in self._optimizers.values() if known],
            "loaders": _distinct(known for known in self._loaders.values() if known),
        }
        if self._modes:
            facts["modes"] = self._modes
        parts: dict[str, Callable[[], object]] = {
            "ddp": lambda: ddp_facts(outermost),
            "fsdp": lambda: fsdp_facts(outermost),
            "compile": compile_facts,
            "allocator": allocator_facts,
        }
        for name, part in parts.items():
            with tolerated(Exception), _behind_function_modes():
                known = part()
                if known is not None:
                    facts[name] = known
        return facts


def _behind_function_modes() -> Any:
    """Meanwhile neither a TorchFunctionMode of the script nor a class of tensors sees what we ask."""
    return torch._C.DisableTorchFunction()


def _distinct(facts: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """A loader makes an iterator per epoch; all of them are the same fact."""
    found: list[dict[str, object]] = []
    found.extend(one for one in facts if one not in found)
    return found


def optimizer_facts(optimizer: Optimizer) -> dict[str, object]:
    groups = optimizer.param_groups
    parameters = [parameter for group in groups for parameter in group["params"]]
    first = groups[0] if groups else {}
    return {
        "kind": type(optimizer).__name__,
        "fused": _flag(first.get("fused")),
        "foreach": _flag(first.get("foreach")),
        "capturable": _flag(first.get("capturable", False)),
        "parameters": len(parameters),
        "elements": sum(parameter.numel() for parameter in parameters),
        "groups": len(groups),
        "frozen": sum(not parameter.requires_grad for parameter in parameters),
        "without_gradient": sum(parameter.grad is None for parameter in parameters),
        "device": parameters[0].device.type if parameters else None,
    }


def _flag(value: object) -> bool | None:
    """A flag, which a script may have set to anything."""
    return value if value is None else bool(value)


def loader_facts(iterator: object) -> dict[str, object]:
    """Facts of an iterator of a DataLoader: it has what its loader was made with."""
    known = iterator.__dict__
    sampler = known.get("_index_sampler")
    return {
        "workers": _number(known.get("_num_workers")),
        "pin_memory": _flag(known.get("_pin_memory")),
        "prefetch": _number(known.get("_prefetch_factor")),
        "persistent": _flag(known.get("_persistent_workers", False)),
        "batch_size": _number(getattr(sampler, "__dict__", {}).get("batch_size")),
        "dataset": type(known.get("_dataset")).__name__,
    }


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def mode_facts(module: torch.nn.Module) -> dict[str, object]:
    device = "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else "cpu"
    is_cast = torch.is_autocast_enabled(device)
    return {
        "training": bool(module.training),
        "grad_enabled": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "autocast": _type_name(torch.get_autocast_dtype(device)) if is_cast else None,
        "anomaly": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "default_dtype": _type_name(torch.get_default_dtype()),
    }


def _type_name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def ddp_facts(outermost: torch.nn.Module | None) -> list[dict[str, object]]:
    return [_of_ddp(module) for module in ddp_modules(outermost)]


def ddp_modules(outermost: torch.nn.Module | None) -> list[Any]:
    kind = getattr(sys.modules.get("torch.nn.parallel.distributed"), "DistributedDataParallel", None)
    if kind is None:
        return []
    return [module for module in _near(outermost) if isinstance(module, kind)][:_MOST]


def _near(outermost: torch.nn.Module | None) -> list[torch.nn.Module]:
    """The module itself, and what it may be a wrapper of: torch.compile and frameworks have the real one inside."""
    if outermost is None:
        return []
    return [outermost, *filter(None, islice(outermost._modules.values(), _MOST))]


def _of_ddp(module: Any) -> dict[str, object]:
    known = module.__dict__
    logged = module._get_ddp_logging_data()  # kept by DDP itself, of its latest iteration that it looked at
    return {
        "find_unused_parameters": _flag(known.get("find_unused_parameters")),
        "static_graph": _flag(known.get("static_graph")),
        "bucket_bytes": _number(known.get("bucket_bytes_cap")),
        "broadcast_buffers": _flag(module.broadcast_buffers),
        "gradient_as_bucket_view": _flag(known.get("gradient_as_bucket_view")),
        "parameters": len(known.get("_module_parameters", ())),
        "unused_bytes": _number(logged.get("unused_parameter_size")),
    }


def fsdp_facts(outermost: torch.nn.Module | None) -> list[dict[str, object]]:
    """Facts of FSDP2; units are the modules whose parameters are gathered together."""
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    if kind is None or outermost is None:
        return []
    units = [module for module in islice(outermost.modules(), _MOST_MODULES) if isinstance(module, kind)]
    if not units:
        return []
    inner = units[1:] or units  # by default the root keeps its parameters
    groups = [unit._get_fsdp_state()._fsdp_param_group for unit in inner]
    reshards = (getattr(group, "post_forward_mesh_info", None) is not None for group in groups)
    return [{"units": len(units), "reshard_after_forward": any(reshards)}]


def compile_facts() -> dict[str, object] | None:
    """Since the process began. None where the script has compiled nothing."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    if not counters or not counters.get("frames"):
        return None
    again = (
        f"{entry.co_name}: {_first_line(_without_id(entry.recompile_reason))}"
        for entry in list(getattr(dynamo, "_compilation_metrics", ()))
        if getattr(entry, "recompile_reason", None) and "/redline/capture/" not in str(entry.co_filename)
    )
    return {
        "graphs": int(counters.get("stats", {}).get("unique_graphs", 0)),
        "breaks": _counted((_break_reason(text), times) for text, times in counters.get("graph_break", {}).items()),
        "places": _counted((_resumed_at(name), times) for name, times in counters.get("resumes", {}).items()),
        "recompiles": _counted((reason, 1) for reason in again),
    }


def _counted(reasons: Iterable[tuple[str, int]]) -> list[list[object]]:
    """The commonest first. Reasons that differ in numbers alone are one, shown as it was first."""
    first: dict[str, str] = {}
    counts: dict[str, int] = {}
    for reason, times in reasons:
        key = "".join("0" if letter.isdigit() else letter for letter in reason)
        first.setdefault(key, reason[:_MOST_LETTERS])
        counts[key] = counts.get(key, 0) + int(times)
    ordered = sorted(counts, key=lambda key: -counts[key])
    return [[first[key], counts[key]] for key in ordered[:_MOST_REASONS]]


def _break_reason(text: str) -> str:
    """The sentence that explains it, where there is one; else its headline."""
    explained = text.partition("Explanation:")[2]
    return _first_line(explained) or _first_line(text)


def _first_line(text: str) -> str:
    """Without the comment that says which line of code a guard is of."""
    return text.strip().partition("\n")[0].partition("  #")[0].strip()


def _without_id(reason: str) -> str:
    """2/0: k == 1"""
    number, colon, rest = reason.partition(": ")
    return rest if colon and number.replace("/", "").isdigit() else reason


def _resumed_at(name: str) -> str:
    """torch_dynamo_resume_in_forward_at_41: where the function goes on after a break."""
    function, _, line = name.removeprefix("torch_dynamo_resume_in_").rpartition("_at_")
    return f"{function}:{line}" if function else name


def allocator_facts() -> dict[str, object]:
    return {"caching": not any(os.environ.get(name) for name in _SWITCHES_CACHING_OFF)}
