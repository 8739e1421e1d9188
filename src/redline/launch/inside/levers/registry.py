"""The levers that there are, by name."""

from __future__ import annotations

from redline.launch.inside.levers.attention_backend import AttentionBackend
from redline.launch.inside.levers.autocast import Autocast
from redline.launch.inside.levers.batch_times import LargerBatches
from redline.launch.inside.levers.channels_last import ChannelsLast
from redline.launch.inside.levers.checkpointed import CheckpointedBlocks
from redline.launch.inside.levers.clip_foreach import ForeachClipping
from redline.launch.inside.levers.compiled import CompiledModules
from redline.launch.inside.levers.core_share import CoreShare
from redline.launch.inside.levers.cuda_graphs import GraphedModules
from redline.launch.inside.levers.cudnn_benchmark import CudnnBenchmark
from redline.launch.inside.levers.data_loaders import LoaderPinning, LoaderPrefetch, LoaderWorkers
from redline.launch.inside.levers.ddp_bf16 import GradientsInBf16
from redline.launch.inside.levers.ddp_buffers import OwnBuffers
from redline.launch.inside.levers.ddp_options import DdpOption
from redline.launch.inside.levers.environment_variable import EnvironmentVariables
from redline.launch.inside.levers.fsdp_keep import KeptParameters
from redline.launch.inside.levers.fsdp_prefetch import PrefetchedUnits
from redline.launch.inside.levers.gc_every import ScheduledGarbage
from redline.launch.inside.levers.gc_freeze import FrozenGarbage
from redline.launch.inside.levers.matmul_precision import MatmulPrecision
from redline.launch.inside.levers.non_blocking import CopiesAhead
from redline.launch.inside.levers.offload import OffloadedActivations
from redline.launch.inside.levers.optimizer_kernels import OptimizerKernels
from redline.launch.inside.levers.script_switch import ScriptSwitch
from redline.launch.inside.levers.threads import ThreadCount
from redline.launch.inside.levers.zero_grad import ZeroGradToNone
from redline.launch.levers import parse_lever

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from redline.launch.inside.levers.lever import JobLever


MADE: dict[str, Callable[[str], JobLever]] = {
    "switch": ScriptSwitch,
    "fused": lambda _: OptimizerKernels("fused"),
    "foreach": lambda _: OptimizerKernels("foreach"),
    "capturable": lambda _: OptimizerKernels("capturable"),
    "clip-foreach": ForeachClipping,
    "workers": LoaderWorkers,
    "prefetch": LoaderPrefetch,
    "pin-memory": LoaderPinning,
    "non-blocking": CopiesAhead,
    "batch-times": LargerBatches,
    "autocast": Autocast,
    "matmul-precision": MatmulPrecision,
    "compile": CompiledModules,
    "cuda-graphs": GraphedModules,
    "checkpoint": CheckpointedBlocks,
    "offload": OffloadedActivations,
    "channels-last": ChannelsLast,
    "cudnn-benchmark": CudnnBenchmark,
    "sdpa": AttentionBackend,
    "threads": ThreadCount,
    "affinity": CoreShare,
    "zero-grad-none": ZeroGradToNone,
    "gc-freeze": FrozenGarbage,
    "gc-every": ScheduledGarbage,
    "bucket-mb": lambda value: DdpOption("bucket_cap_mb", "bucket_cap_bytes", int(value)),
    "bucket-view": lambda _: DdpOption("gradient_as_bucket_view", "gradient_as_bucket_view", True),
    "static-graph": lambda _: DdpOption("static_graph", "static_graph", True),
    "no-broadcast-buffers": OwnBuffers,
    "bf16-hook": GradientsInBf16,
    "fsdp-prefetch": PrefetchedUnits,
    "fsdp-keep": KeptParameters,
}


def make_lever(text: str) -> JobLever:
    """Of a lever as it is written, which was checked before the job began."""
    lever = parse_lever(text)
    if lever.kind.environment:
        return EnvironmentVariables(lever)
    return MADE[lever.kind.name](lever.value)
