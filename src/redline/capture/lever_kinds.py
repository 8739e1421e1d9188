"""The kinds of changes that Redline can switch in an unchanged script: one declaration each."""

from __future__ import annotations

from dataclasses import dataclass

from redline.numerics import Numerics

ACCELERATOR, RANKS, LOADER = "accelerator", "ranks", "loader"
NUMBER = "N"
PRELOAD = "preload"


@dataclass(frozen=True, kw_only=True)
class LeverKind:
    """All that is declared of one kind of change; its page in docs/levers says the rest."""

    name: str
    summary: str  # what it switches
    numerics: Numerics
    switchable: bool = False  # between steps of one process, and leaves nothing there that slows down steps without it
    values: str = ""  # what stands after `=`: N, a choice such as `bf16|fp16`, or a word in capitals; "" for nothing
    default: str = ""  # the value where none is given; "" where one must be given
    findings: tuple[str, ...] = ()  # whose fix it is
    environment: tuple[tuple[str, str], ...] = ()  # variables, for a change that is made there; `{}` is the value
    added_to: tuple[str, ...] = ()  # names of a variable that holds several settings; the first that is set is read
    conflicts: tuple[str, ...] = ()  # levers that must not be on together with it; they say so too
    needs: str = ""  # what a job must have for it to do anything: ACCELERATOR, RANKS (several on a machine) or LOADER
    saves_memory: bool = False  # and hardly time: it is tried where memory is short
    least: int = 1  # of a value that is a number
    tried: tuple[str, ...] = ()  # values that `tune` tries, where they are not a choice and depend on no machine
    applied_by: str = ""  # module and class in `capture.worker.levers` that apply it and put it back
    argument: str = ""  # of DistributedDataParallel that it sets, in the job and in its script
    line: str = ""  # that sets it behind the imports of a script; `{}` is the value
    set_by: tuple[str, ...] = ()  # names with which a script sets it itself, so that the line is not written
    unwritten: str = ""  # why it is not written into a script


_KINDS: tuple[LeverKind, ...] = (
    LeverKind(
        name="switch",
        summary='`redline.switch("NAME")` in the script is true',
        numerics=Numerics.SEMANTICS,
        switchable=True,
        values="NAME",
        applied_by="process_settings:ScriptSwitch",
        unwritten="which path the script takes is its own affair",
    ),
    LeverKind(
        name="fused",
        summary="`fused=True` of optimizers of torch.optim",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-H07", "RL-H08"),
        conflicts=("foreach",),
        applied_by="optimizer_kernels:OptimizerKernels",
    ),
    LeverKind(
        name="foreach",
        summary="`foreach=True` of optimizers of torch.optim",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-H07",),
        conflicts=("fused",),
        applied_by="optimizer_kernels:OptimizerKernels",
    ),
    LeverKind(
        name="capturable",
        summary="`capturable=True` of optimizers of torch.optim: they never wait for the device",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-H08",),
        needs=ACCELERATOR,
        applied_by="optimizer_kernels:OptimizerKernels",
        unwritten="it is for steps that become CUDA graphs, which are made elsewhere",
    ),
    LeverKind(
        name="clip-foreach",
        summary="`foreach=True` where the script clips gradients with `foreach=False`",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-H26",),
        applied_by="optimizer_kernels:ForeachClipping",
        unwritten="what clips may be a function of a library",
    ),
    LeverKind(
        name="workers",
        summary="`num_workers` of every DataLoader of a map-style dataset, which then stay between epochs",
        numerics=Numerics.BITWISE,
        values=NUMBER,
        findings=("RL-D01", "RL-D02"),
        needs=LOADER,
        least=0,
        applied_by="data_loaders:LoaderWorkers",
    ),
    LeverKind(
        name="prefetch",
        summary="`prefetch_factor` of every DataLoader that has workers",
        numerics=Numerics.BITWISE,
        values=NUMBER,
        findings=("RL-D02",),
        needs=LOADER,
        tried=("4",),
        applied_by="data_loaders:LoaderPrefetch",
    ),
    LeverKind(
        name="pin-memory",
        summary="`pin_memory=True` of every DataLoader",
        numerics=Numerics.BITWISE,
        findings=("RL-D03",),
        needs=ACCELERATOR,
        applied_by="data_loaders:LoaderPinning",
    ),
    LeverKind(
        name="non-blocking",
        summary="`non_blocking=True` of copies of pinned tensors to a CUDA device",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-D03",),
        needs=ACCELERATOR,
        applied_by="data_loaders:CopiesAhead",
        unwritten="each copy must be known to be of pinned memory",
    ),
    LeverKind(
        name="batch-times",
        summary="`batch_size` of every DataLoader of a map-style dataset, times N",
        numerics=Numerics.SEMANTICS,
        values=NUMBER,
        findings=("RL-C06",),
        least=2,
        applied_by="data_loaders:LargerBatches",
    ),
    LeverKind(
        name="autocast",
        summary="`torch.autocast` around the outermost module; its outputs are in float32 again",
        numerics=Numerics.LOWER_PRECISION,
        switchable=True,
        values="bf16|fp16",
        default="bf16",
        findings=("RL-C02",),
        applied_by="model_calls:Autocast",
    ),
    LeverKind(
        name="matmul-precision",
        summary="`torch.set_float32_matmul_precision`",
        numerics=Numerics.LOWER_PRECISION,
        switchable=True,
        values="high|medium",
        default="high",
        findings=("RL-C02",),
        applied_by="process_settings:MatmulPrecision",
        line='torch.set_float32_matmul_precision("{}")',
        set_by=("set_float32_matmul_precision", "allow_tf32", "fp32_precision"),
    ),
    LeverKind(
        name="compile",
        summary="`torch.compile` of repeated blocks, or of the outermost module",
        numerics=Numerics.REASSOCIATION,
        values="blocks|root",
        default="blocks",
        findings=("RL-B01", "RL-C17", "RL-H02"),
        conflicts=("cuda-graphs", "sdpa"),
        applied_by="compiled:CompiledModules",
    ),
    LeverKind(
        name="cuda-graphs",
        summary="`torch.compile` in its mode `reduce-overhead`, of the outermost module or of repeated blocks",
        numerics=Numerics.REASSOCIATION,
        values="root|blocks",
        default="root",
        findings=("RL-H01",),
        conflicts=("compile", "sdpa"),
        needs=ACCELERATOR,
        applied_by="compiled:GraphedModules",
        unwritten="the calls that are to be graphs must be chosen where they are made",
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
        applied_by="model_calls:CheckpointedBlocks",
    ),
    LeverKind(
        name="offload",
        summary="activations wait for the backward pass in the memory of the host: less memory for more time",
        numerics=Numerics.BITWISE,
        switchable=True,
        needs=ACCELERATOR,
        saves_memory=True,
        applied_by="model_calls:OffloadedActivations",
        unwritten="it belongs around the forward pass, wherever that is called",
    ),
    LeverKind(
        name="channels-last",
        summary="channels-last layout of 4-d parameters, their gradients and optimizer states, and of 4-d inputs",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-C10",),
        applied_by="model_calls:ChannelsLast",
        unwritten="inputs must be converted as well, wherever they come from",
    ),
    LeverKind(
        name="cudnn-benchmark",
        summary="`torch.backends.cudnn.benchmark`",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        findings=("RL-C19",),
        needs=ACCELERATOR,
        applied_by="process_settings:CudnnBenchmark",
        line="torch.backends.cudnn.benchmark = True",
        set_by=("benchmark",),
    ),
    LeverKind(
        name="sdpa",
        summary="the implementation that `scaled_dot_product_attention` takes",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        values="flash|efficient|math|cudnn",
        findings=("RL-C07",),
        conflicts=("compile", "cuda-graphs"),
        applied_by="compiled:AttentionBackend",
        unwritten="it belongs around the attention, wherever that is called",
    ),
    LeverKind(
        name="threads",
        summary="`torch.set_num_threads`",
        numerics=Numerics.REASSOCIATION,
        switchable=True,
        values=NUMBER,
        findings=("RL-H21",),
        applied_by="process_settings:ThreadCount",
        line="torch.set_num_threads({})",
        set_by=("set_num_threads",),
    ),
    LeverKind(
        name="affinity",
        summary="each rank of a machine keeps to its own share of the cores",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-H20", "RL-N30"),
        needs=RANKS,
        applied_by="process_settings:CoreShare",
        unwritten="each rank must know how many share its machine",
    ),
    LeverKind(
        name="zero-grad-none",
        summary="`zero_grad` drops gradients instead of zeroing them",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-B07",),
        applied_by="optimizer_kernels:ZeroGradToNone",
    ),
    LeverKind(
        name="gc-freeze",
        summary="`gc.freeze()`: the garbage collector looks at new objects only",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-H09",),
        applied_by="garbage:FrozenGarbage",
    ),
    LeverKind(
        name="gc-every",
        summary="garbage is collected every N steps; of N calls of `gc.collect` in the script, one collects",
        numerics=Numerics.BITWISE,
        switchable=True,
        values=NUMBER,
        findings=("RL-H09",),
        tried=("100",),
        applied_by="garbage:ScheduledGarbage",
        unwritten="which collections are left out is the script's own affair",
    ),
    LeverKind(
        name="bucket-mb",
        summary="`bucket_cap_mb` of DistributedDataParallel",
        numerics=Numerics.REASSOCIATION,
        values=NUMBER,
        findings=("RL-N01",),
        needs=RANKS,
        tried=("25", "100", "5"),  # 25 is what DDP takes where a script says nothing
        applied_by="distributed:DdpOption",
        argument="bucket_cap_mb",
    ),
    LeverKind(
        name="bucket-view",
        summary="`gradient_as_bucket_view=True` of DistributedDataParallel",
        numerics=Numerics.BITWISE,
        findings=("RL-N03",),
        needs=RANKS,
        applied_by="distributed:DdpOption",
        argument="gradient_as_bucket_view",
    ),
    LeverKind(
        name="static-graph",
        summary="`static_graph=True` of DistributedDataParallel",
        numerics=Numerics.REASSOCIATION,
        findings=("RL-N20",),
        needs=RANKS,
        applied_by="distributed:DdpOption",
        argument="static_graph",
    ),
    LeverKind(
        name="no-broadcast-buffers",
        summary="DistributedDataParallel does not broadcast buffers before a forward pass",
        numerics=Numerics.SEMANTICS,
        switchable=True,
        findings=("RL-N04",),
        needs=RANKS,
        applied_by="distributed:OwnBuffers",
        unwritten="buffers that differ between ranks are the script's own affair",
    ),
    LeverKind(
        name="bf16-hook",
        summary="DistributedDataParallel sends gradients in bfloat16",
        numerics=Numerics.LOWER_PRECISION,
        findings=("RL-N05",),
        needs=RANKS,
        applied_by="distributed:GradientsInBf16",
        unwritten="it is registered on the wrapped model, which may be made elsewhere",
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
        tried=("2",),
        applied_by="distributed:PrefetchedUnits",
        unwritten="it belongs where the model is sharded",
    ),
    LeverKind(
        name="fsdp-keep",
        summary="gathered parameters of FSDP2 stay until the backward pass: `reshard_after_forward=False`",
        numerics=Numerics.BITWISE,
        switchable=True,
        findings=("RL-N07",),
        needs=RANKS,
        applied_by="distributed:KeptParameters",
        unwritten="it belongs where the model is sharded",
    ),
    LeverKind(
        name=PRELOAD,
        summary="another allocator of host memory",
        numerics=Numerics.BITWISE,
        values="jemalloc|tcmalloc",
        environment=(("LD_PRELOAD", "{}"),),
        conflicts=("malloc-arenas", "malloc-keep"),
    ),
    LeverKind(
        name="malloc-arenas",
        summary="arenas of glibc's malloc",
        numerics=Numerics.BITWISE,
        values=NUMBER,
        environment=(("MALLOC_ARENA_MAX", "{}"),),
        conflicts=(PRELOAD,),
        saves_memory=True,
        tried=("1",),
    ),
    LeverKind(
        name="malloc-keep",
        summary="glibc's malloc keeps memory that is freed, up to 1 GiB",
        numerics=Numerics.BITWISE,
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
        environment=(("THP_MEM_ALLOC_ENABLE", "1"),),
    ),
    LeverKind(
        name="omp-wait",
        summary="what threads of OpenMP do between parallel regions: sleep or spin",
        numerics=Numerics.BITWISE,
        values="passive|active",
        default="passive",
        environment=(("OMP_WAIT_POLICY", "{}"),),
    ),
    LeverKind(
        name="expandable-segments",
        summary="the allocator of CUDA memory lets segments grow",
        numerics=Numerics.BITWISE,
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
        values="VALUE",
        environment=(("NAME", "{}"),),
    ),
)
KINDS = {kind.name: kind for kind in _KINDS}
