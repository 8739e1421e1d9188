"""Changes that Redline can switch in an unchanged script: their names, and what each may do to the numbers."""

from __future__ import annotations

from dataclasses import dataclass

from redline.errors import UsageError
from redline.launch.preloaded import with_allocator
from redline.numerics import Numerics

TYPE_CHECKING = False  # this runs in the user's process: it imports next to nothing
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NUMBER = "N"
_LEAST = {"workers": 0, "batch-times": 2}  # otherwise 1
_OF_ENVIRONMENT = "env:"
PRELOAD = "preload"


@dataclass(frozen=True, kw_only=True)
class LeverKind:
    """One kind of change."""

    name: str
    summary: str  # what it switches
    numerics: Numerics
    switchable: bool  # between two steps of one process, and leaves nothing in it that slows down steps without it
    values: str = ""  # what stands after `=`: N, a choice such as `bf16|fp16`, or a word in capitals; "" for nothing
    default: str = ""  # the value where none is given; "" where one must be given
    findings: tuple[str, ...] = ()  # whose fix it is
    environment: tuple[tuple[str, str], ...] = ()  # variables, for a change that is made there; `{}` is the value
    added_to: tuple[str, ...] = ()  # names of a variable that holds several settings; the first that is set is read
    conflicts: tuple[str, ...] = ()  # levers that must not be on together with it; they say so too


@dataclass(frozen=True)
class Lever:
    """A change as a user asks for it: `fused`, `workers=4`."""

    kind: LeverKind
    value: str = ""

    def __str__(self) -> str:
        return f"{self.kind.name}={self.value}" if self.value else self.kind.name


_KINDS: tuple[LeverKind, ...] = (
    LeverKind(
        name="switch",
        summary='`redline.switch("NAME")` in the script is true',
        numerics=Numerics.SEMANTICS,
        switchable=True,
        values="NAME",
    ),
    LeverKind(
        name="fused",
        summary="`fused=True` of optimizers of torch.optim",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-H07", "RL-H08"),
        conflicts=("foreach",),
    ),
    LeverKind(
        name="foreach",
        summary="`foreach=True` of optimizers of torch.optim",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-H07",),
        conflicts=("fused",),
    ),
    LeverKind(
        name="capturable",
        summary="`capturable=True` of optimizers of torch.optim: they never wait for the device",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-H08",),
    ),
    LeverKind(
        name="clip-foreach",
        summary="`foreach=True` where the script clips gradients with `foreach=False`",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-H26",),
    ),
    LeverKind(
        name="workers",
        summary="`num_workers` of every DataLoader of a map-style dataset, which then stay between epochs",
        numerics=Numerics.BITWISE,
        switchable=False,
        values=_NUMBER,
        findings=("RL-D01", "RL-D02"),
    ),
    LeverKind(
        name="prefetch",
        summary="`prefetch_factor` of every DataLoader that has workers",
        numerics=Numerics.BITWISE,
        switchable=False,
        values=_NUMBER,
        findings=("RL-D02",),
    ),
    LeverKind(
        name="pin-memory",
        summary="`pin_memory=True` of every DataLoader",
        numerics=Numerics.BITWISE,
        switchable=False,
        findings=("RL-D03",),
    ),
    LeverKind(
        name="non-blocking",
        summary="`non_blocking=True` of copies of pinned tensors to a CUDA device",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-D03",),
    ),
    LeverKind(
        name="batch-times",
        summary="`batch_size` of every DataLoader of a map-style dataset, times N",
        numerics=Numerics.SEMANTICS,
        switchable=False,
        values=_NUMBER,
        findings=("RL-C06",),
    ),
    LeverKind(
        name="autocast",
        summary="`torch.autocast` around the outermost module; its outputs are in float32 again",
        numerics=Numerics.LOWER_PRECISION,
        switchable=True,
        values="bf16|fp16",
        default="bf16",
        findings=("RL-C02",),
    ),
    LeverKind(
        name="matmul-precision",
        summary="`torch.set_float32_matmul_precision`",
        numerics=Numerics.LOWER_PRECISION,
        switchable=True,
        values="high|medium",
        default="high",
        findings=("RL-C02",),
    ),
    LeverKind(
        name="compile",
        summary="`torch.compile` of repeated blocks, or of the outermost module",
        numerics=Numerics.REASSOCIATION,
        switchable=False,
        values="blocks|root",
        default="blocks",
        findings=("RL-B01", "RL-C17", "RL-H02"),
        conflicts=("cuda-graphs", "sdpa"),
    ),
    LeverKind(
        name="cuda-graphs",
        summary="`torch.compile` in its mode `reduce-overhead`, of the outermost module or of repeated blocks",
        numerics=Numerics.REASSOCIATION,
        switchable=False,
        values="root|blocks",
        default="root",
        findings=("RL-H01",),
        conflicts=("compile", "sdpa"),
    ),
    LeverKind(
        name="checkpoint",
        summary="activation checkpointing of repeated blocks: less memory for more time",
        numerics=Numerics.BITWISE,
        switchable=True,
        values="blocks",
        default="blocks",
        conflicts=("fsdp-prefetch",),
    ),
    LeverKind(
        name="offload",
        summary="activations wait for the backward pass in the memory of the host: less memory for more time",
        numerics=Numerics.BITWISE,
        switchable=True,
    ),
    LeverKind(
        name="channels-last",
        summary="channels-last layout of 4-d parameters, their gradients and optimizer states, and of 4-d inputs",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-C10",),
    ),
    LeverKind(
        name="cudnn-benchmark",
        summary="`torch.backends.cudnn.benchmark`",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-C19",),
    ),
    LeverKind(
        name="sdpa",
        summary="the implementation that `scaled_dot_product_attention` takes",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        values="flash|efficient|math|cudnn",
        findings=("RL-C07",),
        conflicts=("compile", "cuda-graphs"),
    ),
    LeverKind(
        name="threads",
        summary="`torch.set_num_threads`",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        values=_NUMBER,
        findings=("RL-H21",),
    ),
    LeverKind(
        name="affinity",
        summary="each rank of a machine keeps to its own share of the cores",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-H20", "RL-N30"),
    ),
    LeverKind(
        name="zero-grad-none",
        summary="`zero_grad` drops gradients instead of zeroing them",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-B07",),
    ),
    LeverKind(
        name="gc-freeze",
        summary="`gc.freeze()`: the garbage collector looks at new objects only",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-H09",),
    ),
    LeverKind(
        name="gc-every",
        summary="garbage is collected every N steps; of N calls of `gc.collect` in the script, one collects",
        numerics=Numerics.BITWISE,
        switchable=True,
        values=_NUMBER,
        findings=("RL-H09",),
    ),
    LeverKind(
        name="bucket-mb",
        summary="`bucket_cap_mb` of DistributedDataParallel",
        numerics=Numerics.REASSOCIATION,
        switchable=False,
        values=_NUMBER,
        findings=("RL-N01",),
    ),
    LeverKind(
        name="bucket-view",
        summary="`gradient_as_bucket_view=True` of DistributedDataParallel",
        numerics=Numerics.BITWISE,
        switchable=False,
        findings=("RL-N03",),
    ),
    LeverKind(
        name="static-graph",
        summary="`static_graph=True` of DistributedDataParallel",
        numerics=Numerics.REASSOCIATION,
        switchable=False,
        findings=("RL-N20",),
    ),
    LeverKind(
        name="no-broadcast-buffers",
        summary="DistributedDataParallel does not broadcast buffers before a forward pass",
        numerics=Numerics.SEMANTICS,
        switchable=True,
        findings=("RL-N04",),
    ),
    LeverKind(
        name="bf16-hook",
        summary="DistributedDataParallel sends gradients in bfloat16",
        numerics=Numerics.LOWER_PRECISION,
        switchable=False,
        findings=("RL-N05",),
    ),
    LeverKind(
        name="fsdp-prefetch",
        summary="each unit of FSDP2 has the next N gathered ahead, in both passes",
        numerics=Numerics.BITWISE,
        switchable=True,
        values=_NUMBER,
        findings=("RL-N06",),
        conflicts=("checkpoint",),
    ),
    LeverKind(
        name="fsdp-keep",
        summary="gathered parameters of FSDP2 stay until the backward pass: `reshard_after_forward=False`",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-N07",),
    ),
    LeverKind(
        name=PRELOAD,
        summary="another allocator of host memory",
        numerics=Numerics.BITWISE,
        switchable=False,
        values="jemalloc|tcmalloc",
        environment=(("LD_PRELOAD", "{}"),),
        conflicts=("malloc-arenas", "malloc-keep"),
    ),
    LeverKind(
        name="malloc-arenas",
        summary="arenas of glibc's malloc",
        numerics=Numerics.BITWISE,
        switchable=False,
        values=_NUMBER,
        environment=(("MALLOC_ARENA_MAX", "{}"),),
        conflicts=(PRELOAD,),
    ),
    LeverKind(
        name="malloc-keep",
        summary="glibc's malloc keeps memory that is freed, up to 1 GiB",
        numerics=Numerics.BITWISE,
        switchable=False,
        environment=(
            ("MALLOC_MMAP_THRESHOLD_", "1073741824"),
            ("MALLOC_TRIM_THRESHOLD_", "1073741824"),
            ("MALLOC_TOP_PAD_", "67108864"),
        ),
        conflicts=(PRELOAD,),
    ),
    LeverKind(
        name="huge-pages",
        summary="transparent huge pages for tensors on the CPU",
        numerics=Numerics.BITWISE,
        switchable=False,
        environment=(("THP_MEM_ALLOC_ENABLE", "1"),),
    ),
    LeverKind(
        name="omp-wait",
        summary="what threads of OpenMP do between parallel regions: sleep or spin",
        numerics=Numerics.BITWISE,
        switchable=False,
        values="passive|active",
        default="passive",
        environment=(("OMP_WAIT_POLICY", "{}"),),
    ),
    LeverKind(
        name="expandable-segments",
        summary="the allocator of CUDA memory lets segments grow",
        numerics=Numerics.BITWISE,
        switchable=False,
        findings=("RL-M01",),
        environment=(("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),),
        added_to=("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"),
    ),
    LeverKind(
        name="env:NAME",
        summary="a variable of the environment",
        numerics=Numerics.REASSOCIATION,
        switchable=False,
        values="VALUE",
        environment=(("NAME", "{}"),),
    ),
)
KINDS = {kind.name: kind for kind in _KINDS}


def parse_lever(text: str) -> Lever:
    """Raises UsageError, which names the levers that there are."""
    name, equals, value = text.partition("=")
    if name.startswith(_OF_ENVIRONMENT):
        return _of_environment(name, value, is_given=bool(equals))
    kind = KINDS.get(name)
    if kind is None:
        raise UsageError(f"there is no lever {name!r}; there are: {', '.join(KINDS)}")
    if value and not kind.values:
        raise UsageError(f"lever {name} takes no value")
    value = value or kind.default
    if kind.values and not value:
        raise UsageError(f"lever {name} needs a value: {name}={kind.values}")
    _check_value(kind, value)
    return Lever(kind, value)


def environment_of_all(levers: Sequence[str], inherited: Mapping[str, str]) -> dict[str, str]:
    """All variables of a process that begins with these levers."""
    environment = dict(inherited)
    for lever in levers:
        environment |= environment_of(parse_lever(lever), environment)
    return environment


def environment_of(lever: Lever, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables that a process must begin with to have this change; none for one that is made inside of it."""
    if lever.kind.name == PRELOAD:
        return with_allocator(lever.value, inherited)
    variables = {name: value.format(lever.value) for name, value in lever.kind.environment}
    name = next((name for name in lever.kind.added_to if name in inherited), None)
    return variables if name is None else {name: _added(inherited[name], *variables.values())}


def _added(settings: str, setting: str) -> str:
    """To `key:value,key:value`; other values of the same key are gone."""
    key = setting.partition(":")[0]
    others = [part for part in settings.split(",") if part.strip() and part.partition(":")[0].strip() != key]
    return ",".join([*others, setting])


def _of_environment(name: str, value: str, *, is_given: bool) -> Lever:
    """The variable is a part of the name: two of them are two levers."""
    variable = name.removeprefix(_OF_ENVIRONMENT)
    if not variable or not is_given:
        raise UsageError("a variable of the environment is written env:NAME=VALUE")
    known = KINDS["env:NAME"]
    kind = LeverKind(
        name=name,
        summary=known.summary,
        numerics=known.numerics,
        switchable=False,
        values=known.values,
        environment=((variable, "{}"),),
    )
    return Lever(kind, value)


def _check_value(kind: LeverKind, value: str) -> None:
    if kind.values == _NUMBER:
        least = _LEAST.get(kind.name, 1)
        if not (value.isascii() and value.isdecimal() and int(value) >= least):
            raise UsageError(f"lever {kind.name} needs a whole number from {least} on, not {value!r}")
    elif kind.values.islower() and value not in kind.values.split("|"):
        raise UsageError(f"lever {kind.name} has no value {value!r}; it has: {kind.values.replace('|', ', ')}")
