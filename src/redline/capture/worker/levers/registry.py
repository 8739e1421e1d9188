"""The levers that there are, by name."""

from __future__ import annotations

from redline.capture.levers import parse_lever
from redline.capture.worker.levers.attention_backend import AttentionBackend
from redline.capture.worker.levers.autocast import Autocast
from redline.capture.worker.levers.batch_times import LargerBatches
from redline.capture.worker.levers.channels_last import ChannelsLast
from redline.capture.worker.levers.checkpointed import CheckpointedBlocks
from redline.capture.worker.levers.clip_foreach import ForeachClipping
from redline.capture.worker.levers.compiled import CompiledModules
from redline.capture.worker.levers.core_share import CoreShare
from redline.capture.worker.levers.cuda_graphs import GraphedModules
from redline.capture.worker.levers.cudnn_benchmark import CudnnBenchmark
from redline.capture.worker.levers.data_loaders import LoaderPinning, LoaderPrefetch, LoaderWorkers
from redline.capture.worker.levers.ddp_bf16 import GradientsInBf16
from redline.capture.worker.levers.ddp_buffers import OwnBuffers
from redline.capture.worker.levers.ddp_options import DdpOption
from redline.capture.worker.levers.environment_variable import EnvironmentVariables
from redline.capture.worker.levers.fsdp_keep import KeptParameters
from redline.capture.worker.levers.fsdp_prefetch import PrefetchedUnits
from redline.capture.worker.levers.gc_every import ScheduledGarbage
from redline.capture.worker.levers.gc_freeze import FrozenGarbage
from redline.capture.worker.levers.matmul_precision import MatmulPrecision
from redline.capture.worker.levers.non_blocking import CopiesAhead
from redline.capture.worker.levers.offload import OffloadedActivations
from redline.capture.worker.levers.optimizer_kernels import OptimizerKernels
from redline.capture.worker.levers.script_switch import ScriptSwitch
from redline.capture.worker.levers.threads import ThreadCount
from redline.capture.worker.levers.zero_grad import ZeroGradToNone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from redline.capture.worker.levers.lever import JobLever


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
