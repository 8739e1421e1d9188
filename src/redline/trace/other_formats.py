"""Files of other tools that are taken for traces: what they are, by their first bytes, and what to do instead."""

import re

_LOOK_BYTES = 1 << 19  # the tables of SQLite stand anywhere in it
_KEYS_BYTES = 4 << 10
_RECORD = "Record with torch.profiler or `redline run`."
_SQLITE = b"SQLite format 3\0"
_TABLES = (
    (rb"StringIds|(META_DATA|EXPORT_META)_(DATA|EXPORT)", f"an export of Nsight Systems (SQLite). {_RECORD}"),
    (rb"rocpd_", f"a database of rocprofv3. {_RECORD}"),
    (
        rb"STRING_IDS|StepTraceTime|CommAnalyzer",
        "a database of Ascend's profiler. Export as text (export_type=ExportType.Text), and give trace_view.json.",
    ),
)
_FLIGHT_RECORDER = "a dump of PyTorch's flight recorder. `torchfrtrace` of PyTorch compares those of all ranks."
_INSPECTOR = f"a record of NCCL Inspector. {_RECORD}"
_ASCEND = "a side file of Ascend's profiler. Its trace is trace_view.json, in ASCEND_PROFILER_OUTPUT."
_TOP_KEYS = (  # by the first, as what follows could be in the metadata of a trace too
    (rb'^\{\s*"rocprofiler-sdk-tool"', f"a result of rocprofv3. {_RECORD}"),
    (rb'^\{\s*"header"\s*:.*"(coll_perf|p2p_perf|dump_stats)"', _INSPECTOR),
    (
        rb'^\{\s*"(comm_lib_version|entries|nccl_\w+|pg_\w+|version)".*"(pg_config|entries)"',
        _FLIGHT_RECORDER,
    ),
    (rb'^\{\s*("config".*"ProfilerActivity\.NPU"|"ENV_VARIABLES"|"distributed_args"|"parallel_group_info")', _ASCEND),
    (rb'^\{\s*("step\w*"\s*:\s*\{\s*)?"(p2p|collective)"\s*:', _ASCEND),
)
_TEXTS = (
    (rb"^\x80.{0,200}?(pg_config|nccl_version|comm_lib_version)", _FLIGHT_RECORDER),
    (rb"^[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ ", f"a TORCH_TRACE log of torch.compile, which `tlparse` reads. {_RECORD}"),
    (rb"^\w*nccl_\w+\{", f"metrics of NCCL Inspector for Prometheus. {_RECORD}"),
    (
        rb"^#.*\b(nThread|nccl-tests|Using devices|busbw)\b",
        "output of nccl-tests. `redline calibrate` measures collectives for Redline.",
    ),
    (rb"^.{0,16}/(host|device):", f"an XSpace of the XLA profiler (JAX, TensorFlow, TPU). {_RECORD}"),
)
ASCEND_FOLDER = re.compile(r"_ascend_(pt|ms)$|^ASCEND_PROFILER_OUTPUT$|^cluster_analysis_output$")
ASCEND_SIDE_FILE = re.compile(r"(profiler_(info|metadata)|(cluster_)?communication)\w*\.json")


def what_it_is(text: bytes) -> str:
    """What a file is that begins like this, and what to do instead; "" where that is not known."""
    if text.startswith(_SQLITE):
        return _first_of(_TABLES, text[:_LOOK_BYTES]) or f"an SQLite database of another tool. {_RECORD}"
    start = text[:_KEYS_BYTES]
    return _first_of(_TOP_KEYS if start.startswith(b"{") else _TEXTS, start)


def _first_of(kinds: tuple[tuple[bytes, str], ...], text: bytes) -> str:
    return next((what for pattern, what in kinds if re.search(pattern, text, re.DOTALL)), "")
