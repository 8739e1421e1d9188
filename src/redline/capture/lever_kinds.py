"""The kinds of changes that Redline can switch in an unchanged script, and what each may do to the numbers."""

from __future__ import annotations

from dataclasses import dataclass

from redline.numerics import Numerics

ACCELERATOR, RANKS, LOADER = "accelerator", "ranks", "loader"
NUMBER = "N"
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
    needs: str = ""  # what a job must have for it to do anything: ACCELERATOR, RANKS (several on a machine) or LOADER
    saves_memory: bool = False  # and hardly time: it is tried where memory is short


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
        needs=ACCELERATOR,
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
        values=NUMBER,
        findings=("RL-D01", "RL-D02"),
        needs=LOADER,
    ),
    LeverKind(
        name="prefetch",
        summary="`prefetch_factor` of every DataLoader that has workers",
        numerics=Numerics.BITWISE,
        switchable=False,
        values=NUMBER,
        findings=("RL-D02",),
        needs=LOADER,
    ),
    LeverKind(
        name="pin-memory",
        summary="`pin_memory=True` of every DataLoader",
        numerics=Numerics.BITWISE,
        switchable=False,
        findings=("RL-D03",),
        needs=ACCELERATOR,
    ),
    LeverKind(
        name="non-blocking",
        summary="`non_blocking=True` of copies of pinned tensors to a CUDA device",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-D03",),
        needs=ACCELERATOR,
    ),
    LeverKind(
        name="batch-times",
        summary="`batch_size` of every DataLoader of a map-style dataset, times N",
        numerics=Numerics.SEMANTICS,
        switchable=False,
        values=NUMBER,
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
        needs=ACCELERATOR,
    ),
    LeverKind(
        name="checkpoint",
        summary="activation checkpointing of repeated blocks: less memory for more time",
        numerics=Numerics.BITWISE,
        switchable=True,
        values="blocks",
        default="blocks",
        conflicts=("fsdp-prefetch",),
        saves_memory=True,
    ),
    LeverKind(
        name="offload",
        summary="activations wait for the backward pass in the memory of the host: less memory for more time",
        numerics=Numerics.BITWISE,
        switchable=True,
        needs=ACCELERATOR,
        saves_memory=True,
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
        needs=ACCELERATOR,
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
        values=NUMBER,
        findings=("RL-H21",),
    ),
    LeverKind(
        name="affinity",
        summary="each rank of a machine keeps to its own share of the cores",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-H20", "RL-N30"),
        needs=RANKS,
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
        values=NUMBER,
        findings=("RL-H09",),
    ),
    LeverKind(
        name="bucket-mb",
        summary="`bucket_cap_mb` of DistributedDataParallel",
        numerics=Numerics.REASSOCIATION,
        switchable=False,
        values=NUMBER,
        findings=("RL-N01",),
        needs=RANKS,
    ),
    LeverKind(
        name="bucket-view",
        summary="`gradient_as_bucket_view=True` of DistributedDataParallel",
        numerics=Numerics.BITWISE,
        switchable=False,
        findings=("RL-N03",),
        needs=RANKS,
    ),
    LeverKind(
        name="static-graph",
        summary="`static_graph=True` of DistributedDataParallel",
        numerics=Numerics.REASSOCIATION,
        switchable=False,
        findings=("RL-N20",),
        needs=RANKS,
    ),
    LeverKind(
        name="no-broadcast-buffers",
        summary="DistributedDataParallel does not broadcast buffers before a forward pass",
        numerics=Numerics.SEMANTICS,
        switchable=True,
        findings=("RL-N04",),
        needs=RANKS,
    ),
    LeverKind(
        name="bf16-hook",
        summary="DistributedDataParallel sends gradients in bfloat16",
        numerics=Numerics.LOWER_PRECISION,
        switchable=False,
        findings=("RL-N05",),
        needs=RANKS,
    ),
    LeverKind(
        name="fsdp-prefetch",
        summary="each unit of FSDP2 has the next N gathered ahead, in both passes",
        numerics=Numerics.BITWISE,
        switchable=True,
        values=NUMBER,
        findings=("RL-N06",),
        conflicts=("checkpoint",),
        needs=RANKS,
    ),
    LeverKind(
        name="fsdp-keep",
        summary="gathered parameters of FSDP2 stay until the backward pass: `reshard_after_forward=False`",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-N07",),
        needs=RANKS,
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
        values=NUMBER,
        environment=(("MALLOC_ARENA_MAX", "{}"),),
        conflicts=(PRELOAD,),
        saves_memory=True,
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
        needs=ACCELERATOR,
        saves_memory=True,
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
