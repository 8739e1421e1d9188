"""Levers that set something of the whole process: its environment, cores, threads, precision, and switches."""

from __future__ import annotations

import os

import torch

from redline.capture.lever_kinds import PRELOAD
from redline.capture.levers import environment_of
from redline.capture.worker import api
from redline.capture.worker.exception_origin import tolerated
from redline.capture.worker.levers.lever import JobLever, JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.capture.levers import Lever

_OF_CUDA = ("PYTORCH_CUDA_", "PYTORCH_HIP_", "PYTORCH_ALLOC_")
_PRELOADED = ("jemalloc", "tcmalloc", "mimalloc")
_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"  # such as `always [madvise] never`
_LOADED = "/proc/self/maps"
_MEMORY = "/proc/self/smaps_rollup"
_BOUND_BY = ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/{}"
_CONVOLUTIONS = (torch.nn.modules.conv._ConvNd,)
_SIZE = 256  # of a product that shows whether anything changes


class EnvironmentVariables(JobLever):
    """Proven by what the process began with: libraries read their variables once, whatever the script sets later."""

    def took(self) -> LeverEffect:
        began = _began_with()
        variables = environment_of(self.lever, began)
        if self.lever.kind.name == PRELOAD and not variables:
            return LeverEffect(False, f"{self.lever.value} is not on this machine, nor in LD_LIBRARY_PATH")
        missing = [name for name, value in variables.items() if began.get(name) != value]
        if missing:
            return LeverEffect(False, f"the process began without {', '.join(missing)}")
        why_not = _why_not(variables, began)
        what = " ".join(f"{name}={value}" for name, value in variables.items())
        return LeverEffect(not why_not, why_not or what)


def _began_with() -> dict[str, str]:
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 (pathlib is slow to import)
        entries = os.fsdecode(file.read()).split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _why_not(variables: dict[str, str], began: dict[str, str]) -> str:
    if any(name.startswith(_OF_CUDA) for name in variables) and not torch.cuda.is_initialized():
        return "the process uses no CUDA device"
    if "LD_PRELOAD" in variables:
        library = variables["LD_PRELOAD"].partition(":")[0]
        is_loaded = os.path.realpath(library) in _text(_LOADED, missing="")
        return "" if is_loaded else f"{library} was not loaded"
    if "THP_MEM_ALLOC_ENABLE" in variables:
        return _why_no_huge_pages()
    preloaded = [name for name in _PRELOADED if name in began.get("LD_PRELOAD", "")]
    if preloaded and any(name.startswith("MALLOC_") for name in variables):
        return f"memory is allocated by {preloaded[0]}, which does not read it"
    return ""


def _why_no_huge_pages() -> str:
    if "[never]" in _text(_HUGE_PAGES, missing="[never]"):
        return f"the kernel gives no huge pages: see {_HUGE_PAGES}"
    used = [line.split()[1] for line in _text(_MEMORY, missing="").splitlines() if line.startswith("AnonHugePages:")]
    return "no memory of the process is in huge pages" if used == ["0"] else ""


def _text(path: str, *, missing: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 (as above)
            return file.read()
    except OSError:
        return missing


class CoreShare(JobLever):
    """Lever `affinity`: each rank of a machine keeps to its own share of the cores.

    All threads of the process that there are, and those that they start.
    """

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._before: set[int] = set()
        self._share: set[int] = set()
        self._why_not = "no model was called"

    def install(self, job: JobView) -> None:
        def called(root: object) -> None:
            if self._is_on:
                self._bind()

        job.each_root(called)

    def switch(self, on: bool) -> None:
        was_on, self._is_on = self._is_on, on
        if on:
            self._bind()
        elif was_on and self._share and os.sched_getaffinity(0) == self._share:
            _set_all(self._before)

    def took(self) -> LeverEffect:
        if not self._share:
            return LeverEffect(False, self._why_not)
        if self._is_on and os.sched_getaffinity(0) != self._share:
            return LeverEffect(False, "the script has bound the process itself since")
        return LeverEffect(True, f"cores {_listed(self._share)} of {_listed(self._before)}")

    def _bind(self) -> None:
        now = os.sched_getaffinity(0)
        if now != self._share:
            self._before = now
            self._why_not, self._share = share_of_rank(now)
        if self._share:
            _set_all(self._share)


def share_of_rank(allowed: set[int]) -> tuple[str, set[int]]:
    """The cores of this rank, or why there are none; neighbours go together, as do the two threads of one core."""
    ranks, rank = (os.environ.get(name, "") for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK"))
    if not (ranks.isdecimal() and rank.isdecimal()) or int(ranks) == 1:
        return "one rank has all cores of the machine", set()
    bound = [name for name in _BOUND_BY if os.environ.get(name, "false").lower() != "false"]
    if bound:
        return f"{bound[0]} binds threads already", set()
    size = len(allowed) // int(ranks)
    if not size:
        return f"{ranks} ranks have {len(allowed)} cores", set()
    cores = sorted(allowed, key=lambda core: (_number(core, "physical_package_id"), _number(core, "core_id"), core))
    return "", set(cores[int(rank) * size : (int(rank) + 1) * size])


def _number(core: int, what: str) -> int:
    with tolerated(OSError, ValueError), open(_TOPOLOGY.format(core, what), encoding="ascii") as file:  # noqa: PTH123
        return int(file.read())
    return 0


def _set_all(cores: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 (pathlib is slow to import)
        with tolerated(OSError):  # it has ended
            os.sched_setaffinity(int(thread), cores)


def _listed(cores: set[int]) -> str:
    return ",".join(map(str, sorted(cores)))


class CudnnBenchmark(JobLever):
    """Lever `cudnn-benchmark`: cuDNN tries its algorithms for each new shape of a convolution.

    It is for models with convolutions on CUDA devices only.
    """

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._scripts = torch.backends.cudnn.benchmark
        self._has_convolutions = False

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            self._has_convolutions |= any(
                isinstance(module, _CONVOLUTIONS) and module.weight.is_cuda for module in root.modules()
            )

        job.each_root(found)

    def switch(self, on: bool) -> None:
        if on:
            self._scripts = self._scripts if self._is_on else torch.backends.cudnn.benchmark
            torch.backends.cudnn.benchmark = True
        elif self._is_on:
            torch.backends.cudnn.benchmark = self._scripts
        self._is_on = on

    def took(self) -> LeverEffect:
        if self._scripts:
            return LeverEffect(False, "the script has switched it on already")
        if not self._has_convolutions:
            return LeverEffect(False, "there are no convolutions on a CUDA device")
        return LeverEffect(True, "cuDNN tries its algorithms")


class MatmulPrecision(JobLever):
    """Lever `matmul-precision`: products of float32 matrices may be computed in a lower precision.

    Many devices have no such mode: whether bits change is tried on the devices of the job.
    """

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._wanted = lever.value
        self._scripts = torch.get_float32_matmul_precision()
        self._devices: dict[torch.device, bool] = {}

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            for parameter in torch.nn.Module.parameters(root):
                if parameter.device not in self._devices:
                    self._devices[parameter.device] = self._changes_bits(parameter.device)
            if self._is_on:
                self.switch(True)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        now = torch.get_float32_matmul_precision()
        if on:
            self._scripts = now if now != self._wanted else self._scripts
            torch.set_float32_matmul_precision(self._wanted)
        elif self._is_on:
            torch.set_float32_matmul_precision(self._scripts)
        self._is_on = on

    def took(self) -> LeverEffect:
        if self._scripts == self._wanted:
            return LeverEffect(False, f"the script has precision {self._wanted!r} already")
        changed = sorted({device.type for device, changes in self._devices.items() if changes})
        if changed:
            return LeverEffect(True, f"float32 products on {', '.join(changed)} have other bits")
        devices = ", ".join(sorted({device.type for device in self._devices})) or "any device"
        return LeverEffect(False, f"float32 products have the same bits on {devices}")

    def _changes_bits(self, device: torch.device) -> bool:
        before = torch.get_float32_matmul_precision()
        products = []
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            square = torch.linspace(-1, 1, _SIZE * _SIZE, device=device, dtype=torch.float32).reshape(_SIZE, _SIZE)
            for precision in ("highest", self._wanted):
                torch.set_float32_matmul_precision(precision)
                products.append(square @ square)
        torch.set_float32_matmul_precision(before)
        return not torch.equal(*products)


class ThreadCount(JobLever):
    """Lever `threads`: how many threads an operator of torch uses on the CPU.

    The script's own number is the one that there is when it is switched on, or when a model is first called.
    """

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._number = int(lever.value)
        self._scripts = torch.get_num_threads()
        self._has_changed = False

    def install(self, job: JobView) -> None:
        job.each_root(lambda root: self._set() if self._is_on else None)

    def switch(self, on: bool) -> None:
        was_on, self._is_on = self._is_on, on
        if on:
            self._set()
        elif was_on and torch.get_num_threads() == self._number:
            torch.set_num_threads(self._scripts)

    def took(self) -> LeverEffect:
        now = torch.get_num_threads()
        if self._is_on and now != self._number:
            return LeverEffect(False, f"the script has set {now} threads since")
        if not self._has_changed:
            return LeverEffect(False, f"there are {self._number} threads without it")
        return LeverEffect(True, f"{self._number} threads instead of {self._scripts}")

    def _set(self) -> None:
        now = torch.get_num_threads()
        if now != self._number:
            self._scripts = now
            torch.set_num_threads(self._number)
        self._has_changed = torch.get_num_threads() == self._number != self._scripts


class ScriptSwitch(JobLever):
    """Lever `switch`: `redline.switch("name")` in the script itself is true while it is on.

    What it changes is the script's own affair.
    """

    def switch(self, on: bool) -> None:
        api.set_switch(self.lever.value, on=on)

    def took(self) -> LeverEffect:
        name, asked = self.lever.value, api.is_asked(self.lever.value)
        return LeverEffect(asked, f"switch {name!r}" if asked else f"the script never asked for {name!r}")
