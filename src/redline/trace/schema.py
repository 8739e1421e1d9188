"""The raw Kineto trace: the only module that knows its field names, categories and spellings, old and new."""

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from math import nan
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, field

from redline.timeline.timeline import NONE, Kind, Waiter

# --- events -----------------------------------------------------------------------------------------------------------

EVENTS_NAME = "traceEvents"
BASE_TIME_KEY = "baseTimeNanoseconds"
SYNTHETIC_KEY = "synthetic"
EVIDENCE_KEY, EVIDENCE_VERSION_KEY, EVIDENCE_VERSION = "redline", "version", 1  # of the host, by `redline run`
ORIGIN_KEY = "timelineOrigin"  # of ours alone: predicted or altered; a trace without it was measured
CHANGES_KEY = "timelineChanges"  # of ours alone: the what-ifs that an altered trace was altered by

COMPLETE, BEGIN, END, METADATA, INSTANT, FLOW_START, FLOW_END, COUNTER = "X", "B", "E", "M", "i", "s", "f", "C"
INSTANT_PHASES = frozenset({"i", "I", "R"})
FLOW_PHASES = frozenset({"s", "t", "f"})
QUIET_PHASES = frozenset({COUNTER, METADATA})  # nothing in them is lost to the analysis

FIRST_KEYS = (b"ph", b"cat", b"name", b"pid", b"tid", b"ts", b"dur", b"args", b"id", b"bp", b"s", b"cname", b"tts")
"""Keys with which some writer begins an event; a `{` before one of them, after a comma, may be an event's start."""


ABSENT = Raw()
"""One object for every missing JSON value: a field is left out of written text only if it is its default itself."""
OTHER = "other"
_CLASSES: Mapping[str, str] = {  # the first that matches; an operator of a CPU is its own kernel
    "attention": r"flash|fmha|attention|paged_attn|mha_(fwd|bwd)|sdpa",
    "convolution": r"conv(?!ert)|wgrad|dgrad|winograd|implicit_gemm|nchwToNhwc|nhwcToNchw|batched_transpose_\d",
    "gemm": r"gemm|gemv|cutlass|cublas|nvjet|Cijk_|xmma|matmul|splitKreduce|aten::((add)?b?mm|(add)?mv|linear|dot)\b",
    "optimizer": r"multi_tensor|adam|sgd|lamb|adagrad|optimizer",
    "normalization": r"norm",
    "softmax": r"soft_?max|cross_entropy|nll_loss",
    "embedding": r"embedding|index_select|gather_kernel|indexSelect",
    "copy": r"copy|cat(array|_|$)|transpose|clone|contiguous|to_copy",
    "reduction": r"reduce|::(sum|mean|amax|amin|norm|any|all)\b|scan|sort|topk",
    "elementwise": r"elementwise|pointwise|vectorized|dropout|gelu|silu|relu|fill|::(add|mul|sub|div|pow|sqrt)_?\b",
}
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _CLASSES.items()}
KERNEL_CLASSES = (*_CLASSES, OTHER)


class Args(msgspec.Struct, gc=False, omit_defaults=True):
    """The arguments of an event that analysis needs; any other is skipped while decoding. Missing numbers are -1."""

    external_id: int | None = field(name="External id", default=NONE)
    external_id_2021: int | None = field(name="external id", default=NONE)
    correlation: int | None = NONE
    sequence: int | None = field(name="Sequence number", default=NONE)
    forward_thread: int | None = field(name="Fwd thread id", default=NONE)
    python_id: int | None = field(name="Python id", default=NONE)
    python_parent_id: int | None = field(name="Python parent id", default=NONE)
    python_module_id: int | None = field(name="Python module id", default=NONE)
    shapes: Raw = field(name="Input Dims", default=ABSENT)
    dtypes: Raw = field(name="Input type", default=ABSENT)
    strides: Raw = field(name="Input Strides", default=ABSENT)
    call_stack: str | None = field(name="Call stack", default=None)
    values: Raw = field(name="Concrete Inputs", default=ABSENT)
    grid: Raw = ABSENT
    block: Raw = ABSENT
    device: int | None = NONE
    stream: int | str | None = None
    bytes: int | str | None = None
    graph_node: int | None = field(name="graph node id", default=NONE)
    collective: str | None = field(name="Collective name", default=None)
    in_elements: int | None = field(name="In msg nelems", default=NONE)
    out_elements: int | None = field(name="Out msg nelems", default=NONE)
    group_size: int | None = field(name="Group size", default=NONE)
    dtype: str | None = None
    group: str | None = field(name="Process Group Name", default=None)
    group_ranks: str | None = field(name="Process Group Ranks", default=None)
    comm_rank: int | None = field(name="Rank", default=NONE)
    source_rank: int | None = field(name="Src Rank", default=NONE)
    destination_rank: int | None = field(name="Dst Rank", default=NONE)
    collective_number: int | None = field(name="Seq", default=NONE)  # torch 2.12
    waited_stream: int | None = field(name="wait_on_stream", default=NONE)
    waited_event: int | None = field(name="wait_on_cuda_event_id", default=NONE)
    waited_record: int | None = field(name="wait_on_cuda_event_record_corr_id", default=NONE)
    recorded_event: int | None = field(name="event_id", default=NONE)
    global_rank_start: int | None = field(name="Global rank start", default=NONE)
    global_rank_stride: int | None = field(name="Global rank stride", default=NONE)
    memory_bytes: int | None = field(name="Bytes", default=NONE)
    allocated: int | None = field(name="Total Allocated", default=NONE)
    reserved: int | None = field(name="Total Reserved", default=NONE)
    memory_device: int | None = field(name="Device Id", default=NONE)
    address: int | None = field(name="Addr", default=NONE)
    name: str | None = None
    labels: str | None = None


class Event(msgspec.Struct, gc=False, omit_defaults=True):
    """One event as Kineto writes it."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: float = nan
    dur: float = nan
    id: int | str = -1
    args: Args | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """The same with exact times, which may be strings; slower, for stamps that a double cannot hold."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: Decimal | None = None
    dur: Decimal | None = None
    id: int | str = -1
    args: Args | None = None


class Arrow(msgspec.Struct, gc=False, omit_defaults=True):
    """One end of an arrow between spans, as it is written."""

    ph: str
    cat: str
    name: str
    pid: int
    tid: int
    ts: float
    id: int
    bp: str = ""  # "e": the arrow ends at the span around this time


class Naming(msgspec.Struct, gc=False):
    """A metadata event that names a process or a thread, as it is written."""

    name: str
    pid: int
    tid: int
    args: dict[str, str | int]
    ph: str = "M"


AnyEvent: TypeAlias = Event | ExactEvent
KEPT_FIRST = frozenset({"ph", "cat", "name"})
"""Where a field is written twice: these precede free text, so the first value is the profiler's; of others the last."""

TIME_AS_STRING = re.compile(rb'"ts"\s*:\s*"')
_LARGE_FRACTION = re.compile(rb'"ts"\s*:\s*[0-9]{13,}\.[0-9]*[1-9]')
_LARGE_NUMBER = re.compile(rb"\.(?<=[0-9]{13}\.)")  # begins with one byte: many times faster to look for
CATEGORY_KEY, DURATION_KEY = b'"cat"', b'"dur"'


def has_large_fraction(text: bytes) -> bool:
    """Whether there is a stamp that a double cannot hold: many digits, and some after the point that matter."""
    return _LARGE_NUMBER.search(text) is not None and _LARGE_FRACTION.search(text) is not None


# --- categories -------------------------------------------------------------------------------------------------------

CATEGORY_OF_2021 = {
    "Operator": "cpu_op",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Runtime": "cuda_runtime",
    "async": "ac2g",
    "async_cpu_to_gpu": "ac2g",
}

KIND_OF_CATEGORY = {
    "cpu_op": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "python_function": Kind.PYTHON,
    "cuda_runtime": Kind.RUNTIME,
    "hip_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "mtia_runtime": Kind.RUNTIME,
    "privateuse1_runtime": Kind.RUNTIME,
    "glow_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.DRIVER,
    "hip_driver": Kind.DRIVER,
    "xpu_driver": Kind.DRIVER,
    "privateuse1_driver": Kind.DRIVER,
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY,
    "gpu_memset": Kind.SET,
    "cuda_sync": Kind.SYNC,
    "xpu_sync": Kind.SYNC,
    "cuda_event": Kind.SYNC,  # torch 2.12, CUDA 12.8: when the device came to a recorded event
    "gpu_user_annotation": Kind.DEVICE_ANNOTATION,
    "overhead": Kind.OVERHEAD,
    "Trace": Kind.PROFILER,
    "cuda_profiler_range": Kind.PROFILER,
    "external_correlation": Kind.PROFILER,
    # counters, and metrics of work that is there as kernels
    "hardware_counters": Kind.PROFILER,
    "mtia_counters": Kind.PROFILER,
    "mtia_insight": Kind.PROFILER,
    "xpu_scope_profiler": Kind.PROFILER,
}
MTIA_WORK = "mtia_ccp_events"  # kernels, copies and waits of a device alike
_KIND_OF_ENDING = {"runtime": Kind.RUNTIME, "driver": Kind.DRIVER}  # of categories of devices to come

CATEGORY_OF_KIND = {
    Kind.OPERATOR: "cpu_op",
    Kind.ANNOTATION: "user_annotation",
    Kind.PYTHON: "python_function",
    Kind.RUNTIME: "cuda_runtime",
    Kind.DRIVER: "cuda_driver",
    Kind.KERNEL: "kernel",
    Kind.COPY: "gpu_memcpy",
    Kind.SET: "gpu_memset",
    Kind.SYNC: "cuda_sync",
    Kind.DEVICE_ANNOTATION: "gpu_user_annotation",
    Kind.OVERHEAD: "overhead",
    Kind.PROFILER: "Trace",
    Kind.OTHER: "other",
}
MEMORY_CATEGORY, MEMORY_NAME = "cpu_instant_event", "[memory]"
DRAWN_CATEGORY = "redline"  # of ours alone: drawn into a merged trace, and no part of what ran
EVENT_CATEGORY, EVENT_REACHED = "cuda_event", "cudaEvent"
WAITER_OF = {
    "Stream Wait Event": Waiter.STREAM_FOR_EVENT,
    "Event Sync": Waiter.HOST_FOR_EVENT,
    "Stream Sync": Waiter.HOST_FOR_STREAM,
    "Context Sync": Waiter.HOST_FOR_DEVICE,
}
MODULE_CALL = "nn.Module: "
FLOW_LAUNCH, FLOW_FORWARD_BACKWARD = "ac2g", "fwdbwd"


def canonical_category(category: str) -> str:
    """The category in the spelling of today's Kineto."""
    return CATEGORY_OF_2021.get(category, category)


def kind_of(category: str) -> Kind:
    return KIND_OF_CATEGORY.get(category) or _KIND_OF_ENDING.get(category.rpartition("_")[2], Kind.OTHER)


_DEVICE_WAIT = re.compile(r"^(event|notify)[_ ](wait|record)$|^write value$|^profiling_(en|dis)able$", re.IGNORECASE)
_DEVICE_TRANSFER = re.compile(r"^(dma_request|memcpy(_async)?|sdma)$", re.IGNORECASE)
_PART_OF_COLLECTIVE = re.compile(r"^Plane \d+$")


def kind_of_device_work(name: str) -> Kind:
    """Of work on a device whose profiler gives all of it one category, or none: MTIA, Ascend, unknown ones."""
    if _DEVICE_WAIT.match(name):
        return Kind.SYNC
    return Kind.COPY if _DEVICE_TRANSFER.match(name) else Kind.KERNEL


def is_summary_process(process_name: str) -> bool:
    """Whether spans of a process are sums over other lanes, gaps included, as Ascend's overlap analysis is."""
    return process_name == "Overlap Analysis"


def is_part_of_collective(thread_name: str) -> bool:
    """Whether a lane holds what a collective of another lane is made of, waits included, as Ascend's planes do."""
    return _PART_OF_COLLECTIVE.match(thread_name) is not None


def is_host_label(process_label: str) -> bool:
    return process_label == "CPU"


# --- names that mean something ----------------------------------------------------------------------------------------

PROFILER_STEP = "ProfilerStep"
OPTIMIZER_STEP = "Optimizer.step#"
ZERO_GRAD = "Optimizer.zero_grad#"
DATA_LOADER = "enumerate(DataLoader)#"
LOST_NAME = "unknown"  # what Kineto's exporter writes for a name with non-ASCII letters

# In 2021 these regions were written as operators.
_ANNOTATION_NAME = re.compile(r"ProfilerStep|Optimizer\.(step|zero_grad)#|enumerate\(DataLoader\)#")

_ENGINE_PHASE = re.compile(r"context_(?P<context>\d+).*_generation_(?P<generation>\d+)|step\[(?P<mode>\w+)")
_ENGINE_LOAD = re.compile(r"(?:context|generation)_(\d+)\((?:sq)?(\d+)")
_ENGINE_BATCH = re.compile(r"(?:context|generation)_(\d+)\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)")
_ENGINE_SIZES = re.compile(r" (bs|toks)=(\d+)")
_ENGINE_STEP = re.compile(r"execute_(\d+_)?(context|generation)_|step\[")

_DEVICE_COMMUNICATION = re.compile(
    r"^(void )?(\w+::)*(nccl|rccl|msccl|hcom_)"  # NCCL, RCCL and MSCCL kernels; HCCL operations of Ascend
    r"|\b(deep_ep|ep)::"  # DeepEP: dispatch, combine, their notifications and layouts
    r"|nvshmem"
    r"|cross_device_reduce|quickreduce|mscclpp"  # custom all-reduce of vLLM, SGLang, ROCm
    r"|(multimem|one_?shot|two_?shot|symm_?mem)\w*_?(all_?reduce|all_?gather|reduce_?scatter)"  # symmetric memory
    r"|all_?reduce\w*(fusion|kernel|lamport|stage)|lamport\w*reduce"
    r"|all_?gather_?kernel|reduce_?scatter_?kernel|all_?to_?all\w*kernel",
    re.IGNORECASE,
)
_HOST_COMMUNICATION = re.compile(r"^(gloo|mpi|ucc):")
_BACKEND_REGION = re.compile(r"^(nccl|rccl|xccl|hccl|gloo|mpi|ucc):")

_COLLECTIVE = re.compile(
    r"(?P<all_reduce>all_?reduce|cross_device_reduce|quickreduce)"
    r"|(?P<reduce_scatter>reduce_?scatter)"
    r"|(?P<all_gather>all_?gather)"
    r"|(?P<all_to_all>all_?to_?all)"
    r"|(?P<broadcast>broadcast)"
    r"|(?P<barrier>barrier)"
    r"|(?P<send_receive>send_?recv)"
    r"|(?P<expert_combine>::combine)"
    r"|(?P<expert_dispatch>dispatch|cached_notify)"
    r"|(?P<send>send)"
    r"|(?P<receive>recv)"
    r"|(?P<scatter>scatter)"
    r"|(?P<gather>gather)"
    r"|(?P<reduce>reduce)",
    re.IGNORECASE,
)
ENDS_TOGETHER = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
"""Collectives without a root: no rank can finish one before every rank has arrived, so they end together."""


def is_engine_step(name: str) -> bool:
    """Whether a region is one forward step of vLLM ("execute_context_...") or SGLang ("step[DECODE bs=32]")."""
    return _ENGINE_STEP.match(name) is not None


def phase_of(step_label: str) -> str:
    """What a step of a serving engine does: "prefill", "decode" or "mixed"; "" where its label does not say."""
    match = _ENGINE_PHASE.search(step_label)
    if match is None:
        return ""
    if match["mode"] is not None:
        return {"EXTEND": "prefill", "PREFILL": "prefill", "DECODE": "decode", "MIXED": "mixed"}.get(match["mode"], "")
    prefills, decodes = int(match["context"]), int(match["generation"])
    return "mixed" if prefills and decodes else "prefill" if prefills else "decode" if decodes else ""


def load_of(step_label: str) -> tuple[int, int]:
    """Requests and tokens of a serving engine's step; 0 where its label does not say."""
    parts = _ENGINE_LOAD.findall(step_label)
    if parts:
        return sum(int(requests) for requests, _ in parts), sum(int(tokens) for _, tokens in parts)
    sizes = dict(_ENGINE_SIZES.findall(step_label))
    requests = int(sizes.get("bs", 0))
    return requests, int(sizes.get("toks", requests if phase_of(step_label) == "decode" else 0))


class BatchSizes(NamedTuple):
    """Of a serving engine's step, summed over its requests."""

    requests: int
    queries: int  # new tokens
    keys: int  # tokens that they see, with themselves
    pairs: float  # of a query and a key that it sees


def batch_sizes_of(step_label: str) -> BatchSizes | None:
    """None where the label does not have them."""
    parts = [tuple(map(int, found)) for found in _ENGINE_BATCH.findall(step_label)]
    if not parts:
        return None
    requests, queries, keys, query_squares, query_keys = map(sum, zip(*parts, strict=True))
    return BatchSizes(requests, queries, keys, query_keys - (query_squares - queries) / 2)


def is_annotation_name(name: str) -> bool:
    return _ANNOTATION_NAME.match(name) is not None


def is_device_communication(kernel_name: str) -> bool:
    return _DEVICE_COMMUNICATION.search(kernel_name) is not None


def is_host_communication(name: str) -> bool:
    return _HOST_COMMUNICATION.match(name) is not None


def is_counted_by_group(name: str) -> bool:
    """Whether a process group on CPUs counts this as one of its collectives, as all ranks of it do."""
    return is_host_communication(name) and not is_point_to_point(name)


def is_backend_region(name: str) -> bool:
    """Whether an annotation was put around a collective by its backend, as in nccl:all_reduce."""
    return _BACKEND_REGION.match(name) is not None


def collective_of(name: str) -> str:
    """Our word for the collective that a kernel, an annotation or the profiler's metadata names; "" if none."""
    match = _COLLECTIVE.search(name.split("<", 1)[0].split("(", 1)[0])
    return match.lastgroup or "" if match else ""


def is_graph_launch(name: str) -> bool:
    return "GraphLaunch" in name


def launches_kernel(name: str) -> bool:
    return "LaunchKernel" in name


def is_capture(name: str) -> bool:
    """Whether a call records a graph: what is launched meanwhile does not run."""
    return "BeginCapture" in name


def ends_capture(name: str) -> bool:
    """Whether a call ends the recording of a graph."""
    return "EndCapture" in name


def launches_work(name: str) -> bool:
    """Whether a runtime or driver call puts work on a device."""
    return "Launch" in name or "Memcpy" in name or "Memset" in name


_BLOCKING_CALL = re.compile(
    r"(Stream|Device|Event|Ctx)Synchronize|Memcpy(WithStream|2D|3D|Peer|DtoH|HtoD|DtoD)?(_v\d+)?$"
)
_BOOKKEEPING_OPERATOR = re.compile(
    # views and allocations
    r"^aten::(empty\w*|view\w*|_unsafe_view|reshape|_reshape_alias|t|transpose|permute|as_strided|expand\w*|slice|select"
    r"|squeeze\w*|unsqueeze|narrow|detach\w*|alias|unbind|split\w*|chunk|flatten|result_type|is_\w+|set_|resize_"
    r"|resolve_(conj|neg)|lift_fresh|numpy_T"
    # operators that only call others
    r"|to|_to_copy|type_as|contiguous|clone|(zeros|ones|full)(_like)?|item|linear|matmul|einsum|_?conv\w*\dd|_?convolution"
    r"|(layer|rms|batch|group|instance)_norm|_batch_norm_impl_index|dropout|embedding|cross_entropy_loss|nll_loss(_nd|2d)?"
    r"|softmax|log_softmax|scaled_dot_product_attention|square|stack|pad)$"
    # the engine of the backward pass and its nodes, waits for other ranks, regions
    r"|^(autograd|_?c10d(_functional)?|profiler|torch::autograd)::|^\w+Backward\d*$|^record_param_comms$|^detach_?$"
    r"|^Optimizer\.|^Distributed|^(Nested)?Redistribute|^_FromTorchTensor|^PythonSubclass"
    # what a compiler does before its code runs
    r"|^TorchDynamo |^AOTDispatcher |^Pregraph bytecode"
)
_BACKWARD_NODE = re.compile(r"^autograd::engine::evaluate_function|^\w+Backward\d*$")
_COMPILED_REGION = re.compile(r"^(Torch-Compiled Region|CompiledFunction|## Call CompiledFxGraph|Inductor)")
_IN_PLACE = re.compile(
    r"^aten::(?!(detach|requires_grad|resize|set|squeeze|unsqueeze|t|transpose|as_strided)_$)\w*[a-z0-9]_$"
)
_ELEMENTWISE_UPDATE = re.compile(
    r"^aten::((add|sub|rsub|mul|div|lerp|addcmul|addcdiv|sqrt|pow|neg|sign|maximum|clamp\w*)_?|copy_|clone)$"
)
_LAYER_OPERATOR = re.compile(
    r"^aten::(linear|matmul|(addmm|mm|bmm|baddbmm)|_?conv\w*|embedding(_bag)?|scaled_dot_product_attention|einsum|lstm|gru)$"
)
_COPYING_OPERATOR = re.compile(r"^aten::(copy_|fill_|zero_|_to_copy|contiguous|clone)$")


def is_python_function(operator_name: str) -> bool:
    """Whether an operator is an autograd function that was written in Python: it has no namespace."""
    return operator_name.isidentifier() and not is_bookkeeping_operator(operator_name)


def is_blocking_call(name: str) -> bool:
    """Whether a runtime or driver call returns only after the device has done something."""
    return _BLOCKING_CALL.search(name) is not None


def is_bookkeeping_operator(name: str) -> bool:
    """Whether the time of an operator itself, without those that it calls, is dispatch or waiting and no computing."""
    return _BOOKKEEPING_OPERATOR.match(name) is not None


def is_backward_node(name: str) -> bool:
    """Whether an operator is a node of the backward pass."""
    return _BACKWARD_NODE.match(name) is not None


def is_compiled_region(name: str) -> bool:
    """Whether compiled code runs inside this operator without operators of its own."""
    return _COMPILED_REGION.match(name) is not None


def is_copying_operator(name: str) -> bool:
    return _COPYING_OPERATOR.match(name) is not None


_DENSE_EMBEDDING_GRADIENT = re.compile(r"^aten::(embedding_dense_backward|_embedding_bag_dense_backward)$")
_DEVICE_COPY = re.compile(r"DtoD|DeviceToDevice|Device -> Device")
_ASKED_COPY = re.compile(r"^aten::(clone|to|contiguous)$")
_CONVOLUTION = re.compile(r"^aten::\w*convolution\w*$|^aten::conv\dd$")


def is_device_copy(name: str) -> bool:
    """Whether a copy stays on its device."""
    return _DEVICE_COPY.search(name) is not None


def is_tensor_copy(name: str) -> bool:
    """Whether an operator copies one tensor into another; shapes, strides and types are those of both, to and from."""
    return name == "aten::copy_"


def is_asked_copy(name: str) -> bool:
    """Whether an operator is one with which a program asks for a copy: x.clone(), x.to(...), x.contiguous()."""
    return _ASKED_COPY.match(name) is not None


def is_convolution(name: str) -> bool:
    return _CONVOLUTION.match(name) is not None


def is_embedding(name: str) -> bool:
    """Whether an operator looks up rows of a table, its first argument, by indices, its second."""
    return name in ("aten::embedding", "aten::embedding_bag", "aten::_embedding_bag")


def is_table_lookup(name: str) -> bool:
    """The same, or the kernel inside of it."""
    return is_embedding(name) or name == "aten::index_select"


def is_dense_embedding_gradient(name: str) -> bool:
    return _DENSE_EMBEDDING_GRADIENT.match(name) is not None


def is_padding(name: str) -> bool:
    return name == "aten::constant_pad_nd"


def pads_rows(name: str) -> bool:
    """Whether an operator makes a batch of rows of different lengths."""
    return name == "aten::pad_sequence"


def is_cat(name: str) -> bool:
    return name == "aten::cat"


def is_upsampling(name: str) -> bool:
    """Whether an operator makes images larger."""
    return name.startswith("aten::upsample_") or name in ("aten::pixel_shuffle", "aten::conv_transpose2d")


def is_linear(name: str) -> bool:
    return name == "aten::linear"


def is_softmax_call(name: str) -> bool:
    return name == "aten::softmax"


def is_choice(name: str) -> bool:
    """Whether an operator chooses the largest of some results."""
    return name in ("aten::max", "aten::topk", "aten::argmax")


def is_selection(name: str) -> bool:
    """Whether an operator takes some positions of a tensor."""
    return name in ("aten::select", "aten::slice")


def is_gradient_accumulation(name: str) -> bool:
    """Whether a node of the backward pass stores the gradient of a parameter."""
    return name == "torch::autograd::AccumulateGrad"


def is_list_operator(name: str) -> bool:
    """Whether an operator works on lists of tensors, whose types are not recorded."""
    return name.startswith(("aten::_foreach_", "aten::_fused_"))


def is_data_loader(name: str) -> bool:
    return name.startswith(DATA_LOADER)


def is_optimizer_step(name: str) -> bool:
    return name.startswith(OPTIMIZER_STEP)


def is_zero_grad(name: str) -> bool:
    return name.startswith(ZERO_GRAD)


def is_optimizer_region(name: str) -> bool:
    return is_optimizer_step(name) or is_zero_grad(name)


_LOSS = re.compile(
    r"^aten::(cross_entropy_loss|nll_loss\w*|_?log_softmax|binary_cross_entropy\w*|mse_loss|l1_loss|smooth_l1_loss"
    r"|huber_loss|kl_div|\w*ctc_loss)$|(Loss\w*|LogSoftmax|CrossEntropy\w*|KlDiv)Backward\d*$"
)
_EXCHANGE = re.compile(r"^(_?c10d|fsdp::|FSDP::|record_param_comms|torch\.distributed\.ddp)")


def is_loss(name: str) -> bool:
    """Whether an operator, or a node of the backward pass, computes a loss from logits."""
    return _LOSS.search(name) is not None


def is_collective_call(name: str) -> bool:
    """Whether an operator is the one on which the profiler describes a collective."""
    return name == "record_param_comms"


def is_exchange(name: str) -> bool:
    """Whether an operator or a region gathers, reduces or sends tensors of other ranks."""
    return _EXCHANGE.match(name) is not None or is_backend_region(name)


def is_module_call(name: str) -> bool:
    """Whether a recorded Python call is that of a module."""
    return name.startswith(MODULE_CALL)


def begins_forward(name: str) -> bool:
    """Whether a recorded Python call is that of a module, or a region that of DDP around its model."""
    return is_module_call(name) or is_ddp_forward(name)


def writes_in_place(operator_name: str) -> bool:
    """Whether an operator changes values of its first argument, or of lists of tensors, as an optimizer does."""
    return _IN_PLACE.match(operator_name) is not None


def is_layer_operator(operator_name: str) -> bool:
    """Whether an operator is what a layer of a model computes, as against bookkeeping on its weights."""
    return _LAYER_OPERATOR.match(operator_name) is not None


def is_elementwise_update(operator_name: str) -> bool:
    """Whether an operator is arithmetic on single elements, as updates of weights are made of."""
    return _ELEMENTWISE_UPDATE.match(operator_name) is not None


def zeroes(operator_name: str) -> bool:
    return operator_name in ("aten::zero_", "aten::fill_", "aten::_foreach_zero_")


def is_add_in_place(operator_name: str) -> bool:
    return operator_name == "aten::add_"


def accumulates_gradient(operator_name: str) -> bool:
    """Whether a node of the backward pass hands a parameter its gradient."""
    return operator_name.startswith("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad")


def is_loader_in_process(name: str) -> bool:
    """Whether a data loader without workers loads: in the process that trains."""
    return is_data_loader(name) and "SingleProcess" in name


_SOFTMAX = re.compile(r"^aten::_softmax(_backward_data)?$")
_BATCHED_PRODUCT = re.compile(r"^aten::(badd)?bmm$")
_MAY_MASK = re.compile(r"^aten::(masked_fill|where|add|sub)_?$")
_ATTENTION = re.compile(r"^aten::(scaled_dot_product_attention|_\w+_attention(_forward|_backward)?)$")
_FUSED_ATTENTION = re.compile(r"^aten::_(scaled_dot_product_\w+_attention|flash_attention|efficient_attention)\w*$")
_MATRIX_PRODUCT = re.compile(r"^aten::(addmm|mm|_scaled_mm|bmm|baddbmm|linear|matmul)$")
_MATH_ATTENTION = "aten::_scaled_dot_product_attention_math"
_EAGER_KERNEL = re.compile(
    r"elementwise_kernel|reduce_kernel|soft_?max|layer_?norm|batch_norm|CatArrayBatchedCopy|dropout", re.IGNORECASE
)


def is_softmax(operator_name: str) -> bool:
    """Whether an operator computes a softmax or its gradient itself."""
    return _SOFTMAX.match(operator_name) is not None


def is_batched_product(operator_name: str) -> bool:
    return _BATCHED_PRODUCT.match(operator_name) is not None


def is_adding_product(operator_name: str) -> bool:
    return operator_name == "aten::baddbmm"


def may_mask(operator_name: str) -> bool:
    """Whether an operator between the scores of an attention and their softmax puts a mask on them."""
    return _MAY_MASK.match(operator_name) is not None


def is_attention(operator_name: str) -> bool:
    return _ATTENTION.match(operator_name) is not None


def is_fused_attention(operator_name: str) -> bool:
    """Whether an operator is attention in one kernel, forward or backward."""
    return _FUSED_ATTENTION.match(operator_name) is not None


def is_matrix_product(operator_name: str) -> bool:
    return _MATRIX_PRODUCT.match(operator_name) is not None


def is_math_attention(operator_name: str) -> bool:
    """Whether an operator is attention of separate products and softmax."""
    return operator_name == _MATH_ATTENTION


def is_eager_kernel(kernel_name: str) -> bool:
    """Whether a kernel is one of PyTorch's own that reads and writes each element about once: a compiler fuses it."""
    return "at::native::" in kernel_name and _EAGER_KERNEL.search(kernel_name) is not None


_LAYOUT_CONVERSION = re.compile(r"nchwToNhwc|nhwcToNchw|^batched_transpose_\d", re.IGNORECASE)


def is_layout_conversion(kernel_name: str) -> bool:
    """Whether a kernel of cuDNN or MIOpen (batched_transpose_16x32_half) converts between NCHW and NHWC."""
    return _LAYOUT_CONVERSION.search(kernel_name) is not None


# --- data parallelism -------------------------------------------------------------------------------------------------

_UNUSED_SEARCH = "torch.distributed.ddp.reducer::search_unused_parameters"
_OUTPUT_COPY = frozenset({"_DDPSink", "_DDPSinkBackward"})
_WHOLE_NUMBERS = frozenset({"int", "long", "int32", "int64"})
_DDP_FORWARD = "DistributedDataParallel.forward"
_COPIES_FROM_BUCKET = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
_COPIES_INTO_BUCKET = re.compile(r"^torch::distributed::reducer::(mul_out|copy_)$")


def is_unused_search(name: str) -> bool:
    """Whether DDP walks the graph for parameters that no output depends on."""
    return name == _UNUSED_SEARCH


def is_output_copy(operator_name: str) -> bool:
    """Whether DDP passes the outputs of the model through a node of its own, which copies them."""
    return operator_name in _OUTPUT_COPY


def is_whole_number(dtype: str) -> bool:
    return dtype.lower() in _WHOLE_NUMBERS


def is_fsdp_copy(operator_name: str) -> bool:
    """Whether FSDP2 packs or unpacks parameters and gradients of a unit."""
    return operator_name.startswith("fsdp::")


def is_fsdp_hook(region_name: str) -> bool:
    """Whether FSDP2 gathers, frees or reduces a unit in it, before or after a module."""
    return region_name.startswith("FSDP::")


def is_ddp_forward(region_name: str) -> bool:
    return region_name == _DDP_FORWARD


def copies_from_bucket(operator_name: str) -> bool:
    """Whether DDP copies reduced gradients from their bucket to where the optimizer looks for them."""
    return operator_name == _COPIES_FROM_BUCKET


def copies_into_bucket(operator_name: str) -> bool:
    """Whether DDP copies a gradient into its bucket, dividing it by the number of ranks or not."""
    return _COPIES_INTO_BUCKET.match(operator_name) is not None


def is_broadcast(name: str) -> bool:
    return collective_of(name) == "broadcast"


def is_point_to_point(name: str) -> bool:
    return collective_of(name) in ("send", "receive", "send_receive")


def is_broadcast_region(region_name: str) -> bool:
    return is_backend_region(region_name) and is_broadcast(region_name)


# --- what holds up the host -------------------------------------------------------------------------------------------

_SYNCHRONISATION = re.compile(r"(Stream|Device|Ctx)Synchronize")
_SCALAR_READ = re.compile(r"^aten::(_local_scalar_dense|item|is_nonzero|equal)$")
_FINITE_CHECKS = frozenset({"aten::isnan", "aten::isinf", "aten::isfinite"})
_READ_FROM_DEVICE = re.compile(r"DtoH|DeviceToHost")
_WRITE_TO_DEVICE = re.compile(r"HtoD|HostToDevice")
_ALLOCATION = re.compile(r"^(cuda|hip)(Malloc|Free)$|^cuMem(Alloc|Free|Create|Release)(_v\d+)?$")
_PINNING = re.compile(
    r"^(cuda(HostAlloc|MallocHost|FreeHost)|hip(HostMalloc|HostAlloc|HostFree)|(cuda|hip)Host(Register|Unregister)"
    r"|cuMem(HostAlloc|AllocHost|FreeHost|HostRegister|HostUnregister)(_v\d+)?)$"
)
_GARBAGE_COLLECTION = frozenset({"Python GC", "<built-in function collect>"})
_COMPILATION = re.compile(
    r"^(entire_frame_compile|entire_backward_compile|_compile\.compile_inner \(dynamo_timed\)"
    r"|backward\._backward_impl \(dynamo_timed\)|compile_fx(_inner|\.<locals>\.[fb]w_compiler\w*) \(dynamo_timed\)"
    r"|async_compile\.wait|CachingAutotuner\.\w+ \(dynamo_timed\))"
)
_COMPILED_CALL = "Torch-Compiled Region"
_COMPILED_GRAPH = re.compile(r"^(CompiledFunction$|## Call CompiledFxGraph|CompiledFxGraph|CompiledFunctionBackward)")


def is_synchronisation(call_name: str) -> bool:
    """Whether a call waits for all work of a stream or of the device."""
    return _SYNCHRONISATION.search(call_name) is not None


def waits_for_device(call_name: str) -> bool:
    """Whether a call returns when a stream, the device or an event has come so far."""
    return is_synchronisation(call_name) or "EventSynchronize" in call_name


def asks_for_exchange(operator_name: str) -> bool:
    """Whether an operator has an exchange done by threads of the backend, and does not wait for it."""
    return operator_name.startswith("c10d::") and not operator_name.endswith("wait_tensor")


def waits_for_event(call_name: str) -> bool:
    """Whether a call returns when an event has happened, which may be in the middle of what a stream has to do."""
    return "EventSynchronize" in call_name


def asks_for_event(call_name: str) -> bool:
    """Whether a call asks if an event has happened, and returns at once."""
    return "EventQuery" in call_name


def waits_for_every_stream(call_name: str) -> bool:
    """Whether a call waits for all work of the device."""
    return "DeviceSynchronize" in call_name or "CtxSynchronize" in call_name


def makes_stream_wait(call_name: str) -> bool:
    """Whether a call has a stream wait for an event."""
    return "StreamWaitEvent" in call_name


def records_event(call_name: str) -> bool:
    """Whether a call marks how far a stream has come."""
    return "EventRecord" in call_name


def reads_scalar(operator_name: str) -> bool:
    """Whether an operator hands a number to Python; if its tensor is on a device, it waits for that."""
    return _SCALAR_READ.match(operator_name) is not None


def checks_finite(operator_name: str) -> bool:
    """Whether an operator looks for NaN or infinity."""
    return operator_name in _FINITE_CHECKS


def is_item(operator_name: str) -> bool:
    return operator_name == "aten::item"


def is_library_operator(operator_name: str) -> bool:
    return operator_name.startswith("aten::")


def is_read_from_device(copy_name: str) -> bool:
    return _READ_FROM_DEVICE.search(copy_name) is not None


def is_copy_with_host(copy_name: str) -> bool:
    """Whether a copy goes to the host or comes from it."""
    return is_read_from_device(copy_name) or _WRITE_TO_DEVICE.search(copy_name) is not None


def is_pageable_copy(copy_name: str) -> bool:
    """Whether the memory of the host is pageable, so that the call which copies waits; not every runtime tells."""
    return "Pageable" in copy_name


def is_allocation(call_name: str) -> bool:
    """Whether a call takes memory from the driver or gives it back, rather than from the cache of the allocator."""
    return _ALLOCATION.match(call_name) is not None


def is_pinning(call_name: str) -> bool:
    """Whether a call pins memory of the host, or gives pinned memory back."""
    return _PINNING.match(call_name) is not None


def is_garbage_collection(python_name: str) -> bool:
    """Whether a Python span is a run of the collector; automatic ones are recorded on request only."""
    return python_name in _GARBAGE_COLLECTION


def is_backward_engine(operator_name: str) -> bool:
    """Whether autograd evaluates one node of the backward pass, with all that belongs to it."""
    return operator_name.startswith("autograd::engine::evaluate_function")


def is_nan_check(operator_name: str) -> bool:
    """Whether an operator looks for NaN, as anomaly detection does."""
    return operator_name in ("aten::isnan", "aten::_is_any_true")


def is_fill(operator_name: str) -> bool:
    return operator_name == "aten::fill_"


def is_empty_allocation(operator_name: str) -> bool:
    """Whether an operator allocates memory without writing to it."""
    return operator_name.startswith("aten::empty")


def is_compilation(operator_name: str) -> bool:
    """Whether torch.compile is compiling, tuning or loading a graph."""
    return _COMPILATION.match(operator_name) is not None


def is_compiled_call(operator_name: str) -> bool:
    """Whether a function that torch.compile has compiled is running; one inside another follows a graph break."""
    return operator_name.startswith(_COMPILED_CALL)


def is_compiled_graph(operator_name: str) -> bool:
    """Whether one compiled graph is running, without the Python around it."""
    return _COMPILED_GRAPH.match(operator_name) is not None


def is_loader_with_workers(name: str) -> bool:
    """Whether a data loader waits for a batch of its worker processes."""
    return is_data_loader(name) and "MultiProcessing" in name


def is_foreach(operator_name: str) -> bool:
    """Whether an operator works on lists of tensors, a few kernels for all of them."""
    return operator_name.startswith("aten::_foreach_")


def is_foreach_or_fused(operator_name: str) -> bool:
    """Whether an operator updates many tensors at once."""
    return is_foreach(operator_name) or is_fused(operator_name)


def is_fused(operator_name: str) -> bool:
    """Whether an operator is the whole step of an optimizer."""
    return operator_name.startswith("aten::_fused_")


def is_multi_tensor(kernel_name: str) -> bool:
    """Whether a kernel works on many tensors at once."""
    return "multi_tensor" in kernel_name or "fused" in kernel_name.lower()


# --- metadata of the file ---------------------------------------------------------------------------------------------

DEVICES_KEY, DEVICE_MEMORY_KEY, DEVICE_SMS_KEY = "deviceProperties", "totalGlobalMem", "numSms"
DISTRIBUTED_KEY, RANK_KEY, WORLD_SIZE_KEY, BACKEND_KEY = "distributedInfo", "rank", "world_size", "backend"
GROUPS_KEY, GROUP_NAME_KEY, GROUP_RANKS_KEY = "pg_config", "pg_name", "ranks"
HOST_KEY = "host_name"
RECORDED_FLAGS = {
    "record_shapes": "shapes",
    "with_stack": "stack",
    "profile_memory": "memory",
    "with_flops": "flops",
    "with_modules": "modules",
}
VERSION_KEYS = (
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
    "nccl_version",
)
METADATA_KEYS = (
    BASE_TIME_KEY,
    DISTRIBUTED_KEY,
    DEVICES_KEY,
    HOST_KEY,
    SYNTHETIC_KEY,
    ORIGIN_KEY,
    CHANGES_KEY,
    EVIDENCE_KEY,
    *RECORDED_FLAGS,
    *VERSION_KEYS,
)
"""Top-level keys that are looked for one by one where the metadata as a whole does not parse."""

RANK_PROCESS_NAME = re.compile(r"\b[Rr]ank[\s_-]*(\d+)\b")


def distributed_info(metadata: Mapping[str, Any]) -> dict[str, Any]:
    info = metadata.get(DISTRIBUTED_KEY)
    return info if isinstance(info, dict) else {}


@lru_cache(65_536)
def kernel_class(name: str) -> str:
    """Of a kernel, or of an operator that computes on a CPU."""
    return next((known for known, pattern in _PATTERNS.items() if pattern.search(name)), OTHER)
