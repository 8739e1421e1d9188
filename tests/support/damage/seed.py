"""A small clean trace of three training steps, written byte for byte in the layout of Kineto's exporter."""

import json
from dataclasses import dataclass, field
from decimal import Decimal

from tests.support.damage.text import SEPARATOR, us

START = Decimal("5429721648872.169")  # us after the base time, as a host that booted two months before writes it
PROCESS = MAIN = 74266
AUTOGRAD = 74340
COMPUTE_STREAM, NCCL_STREAM = 7, 20
STEPS = 3
STEP_PERIOD = 3000
WINDOW = 500 + STEPS * STEP_PERIOD

_HEAD = """
{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H20", "totalGlobalMem": 102010781696,
      "computeMajor": 9, "computeMinor": 0,
      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
      "regsPerBlock": 65536, "warpSize": 32,
      "sharedMemPerBlock": 49152, "numSms": 78
    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472
    }
  ],
  "cuda_runtime_version": 12040,
  "cuda_driver_version": 12040,
  "cupti_version": 22,
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "pg_count": 1, "pg_config": \
[{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": [0, 1]}], \
"nccl_version": "2.21.5"},
  "record_shapes": 1,
  "with_stack": 1,
  "trace_id": "5E1D00000000000000000000000000AA",
  "traceEvents": [
  """

_TAIL = """
  ],
  "traceName": "/tmp/tmpseed.json",
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1759300074000000000
}"""

_COLLECTIVE = {
    "Collective name": "allreduce",
    "In msg nelems": 65536,
    "Out msg nelems": 65536,
    "Group size": 2,
    "dtype": "Float",
    "In split size": "[]",
    "Out split size": "[]",
    "Process Group Name": "0",
    "Process Group Description": "default_pg",
    "Process Group Ranks": "[0, 1]",
}


@dataclass
class _Writer:
    """Collects the text of events in the order of the exporter: CPU spans, Python functions, device work, metadata."""

    spans: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    device: list[str] = field(default_factory=list)
    ids: int = 0
    correlations: int = 0
    stream_free: dict[int, Decimal] = field(default_factory=dict)

    def op(self, category: str, name: str, tid: int, at: int, dur: int) -> int:
        """A CPU span; gives its external id."""
        self.ids += 1
        shapes = (
            '"Input type": ["float", "float"], "Input Dims": [[64, 256], [256, 256]], ' if category == "cpu_op" else ""
        )
        args = f'"External id": {self.ids},"Record function id": 0, {shapes}"Ev Idx": {self.ids - 1}'
        self.spans.append(_span(category, name, PROCESS, tid, _jitter(at, self.ids), Decimal(dur), args))
        return self.ids

    def function(self, name: str, parent: int | None, at: int, dur: int) -> int:
        """A Python function on the main thread; gives its Python id."""
        python_id = len(self.functions) + 1
        parent_id = "null" if parent is None else str(parent)
        args = f'"Python parent id": {parent_id}, "Python id": {python_id}, "Ev Idx": {10000 + python_id}'
        time = START + at + Decimal("0.5")
        self.functions.append(_span("python_function", name, PROCESS, MAIN, time, Decimal(dur), args))
        return python_id

    def call(self, name: str, op: int, tid: int, at: int, dur: str) -> tuple[int, Decimal]:
        """A call of the CUDA runtime; gives its correlation id and its time."""
        self.correlations += 1
        time = _jitter(at, self.correlations)
        args = f'"External id": {op},      "cbid": 211, "correlation": {self.correlations}'
        self.device.append(_span("cuda_runtime", name, PROCESS, tid, time, Decimal(dur), args))
        return self.correlations, time

    def device_work(
        self, category: str, name: str, op: int, stream: int, launch: tuple[int, int, Decimal], dur: int
    ) -> None:
        """Device work with the arrow from its launch (correlation id, thread, time); a stream runs in order."""
        correlation, tid, launched = launch
        begin = max(launched + 8, self.stream_free.get(stream, START) + Decimal("1.5"))
        length = Decimal(dur) + Decimal(correlation % 7) / 8
        self.stream_free[stream] = begin + length
        place = f'"device": 0, "context": 1,      "stream": {stream}, "correlation": {correlation},      '
        args = f'"External id": {op},      ' + (_KERNEL_ARGS if category == "kernel" else _COPY_ARGS).format(
            place=place
        )
        if "nccl" in name:
            args += ", " + json.dumps(_COLLECTIVE)[1:-1]
        self.device.append(_flow("s", correlation, PROCESS, tid, launched))
        self.device.append(_span(category, name, 0, stream, begin, length, args))
        self.device.append(_flow("f", correlation, 0, stream, begin))


_KERNEL_ARGS = (
    '"queued": 0, {place}"registers per thread": 28,      "shared memory": 0,      "blocks per SM": 0.512821,      '
    '"warps per SM": 2.051282,      "grid": [1, 40, 1],      "block": [128, 1, 1],      "est. achieved occupancy %": 3'
)
_COPY_ARGS = '{place}"bytes": 401408, "memory bandwidth (GB/s)": 38.71604938271605'
_GEMM = (
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
)
_SPLIT = (
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(cublasLt::cublasSplitKParams<float>, float const*)"
)
_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


def _jitter(at: int, number: int) -> Decimal:
    """A time with an odd number of nanoseconds."""
    return START + at + Decimal(number * 37 % 1000) / 1000


def _span(category: str, name: str, pid: int, tid: int, ts: Decimal, dur: Decimal, args: str) -> str:
    return (
        f'{{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
        f'    "ts": {us(ts)}, "dur": {us(dur)},\n    "args": {{\n      {args}\n    }}\n  }}'
    )


def _flow(phase: str, number: int, pid: int, tid: int, ts: Decimal) -> str:
    end = ', "bp": "e"' if phase == "f" else ""
    return (
        f'{{\n    "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {us(ts)},\n'
        f'    "cat": "ac2g", "name": "ac2g"{end}\n  }}'
    )


def _label(name: str, pid: int, tid: int, key: str, value: str) -> str:
    return (
        f'{{\n    "name": "{name}", "ph": "M", "ts": {us(START)}, "pid": {pid}, "tid": {tid},\n'
        f'    "args": {{\n      "{key}": {value}\n    }}\n  }}'
    )


def _labels() -> list[str]:
    threads = {MAIN: "thread 74266 (python3)", AUTOGRAD: "thread 74340 (pt_autograd_0)"}
    streams = {COMPUTE_STREAM: "stream 7 ", NCCL_STREAM: "stream 20 "}
    return [
        _label("process_name", PROCESS, 0, "name", '"python3"'),
        _label("process_labels", PROCESS, 0, "labels", '"CPU"'),
        _label("process_sort_index", PROCESS, 0, "sort_index", str(PROCESS)),
        _label("process_name", 0, 0, "name", '"python3"'),
        _label("process_labels", 0, 0, "labels", '"GPU 0"'),
        _label("process_sort_index", 0, 0, "sort_index", "5000000"),
        *(_label("thread_name", PROCESS, tid, "name", f'"{name}"') for tid, name in threads.items()),
        *(_label("thread_name", 0, tid, "name", f'"{name}"') for tid, name in streams.items()),
    ]


def _ending() -> list[str]:
    begin, end = us(START), us(START + WINDOW)
    return [
        f'{{\n    "ph": "X", "cat": "Trace", "ts": {begin}, "dur": {us(Decimal(WINDOW))},\n'
        '    "pid": "Spans", "tid": "PyTorch Profiler",\n    "name": "PyTorch Profiler (0)",\n'
        '    "args": {\n      "Op count": 0\n    }\n  }',
        f'{{\n    "name": "process_sort_index", "ph": "M", "ts": {begin},\n    "pid": "Spans", "tid": 0,\n'
        '    "args": {\n      "sort_index": 536870912\n    }\n  }',
        '{\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
        f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {begin}\n  }}',
        f'{{\n    "name": "Record Window End", "ph": "i", "s": "g",\n    "pid": "", "tid": "", "ts": {end}\n  }}',
    ]


def _copy_in(out: _Writer, at: int) -> None:
    out.op("cpu_op", "aten::to", MAIN, at, 60)
    op = out.op("cpu_op", "aten::copy_", MAIN, at + 5, 50)
    correlation, time = out.call("cudaMemcpyAsync", op, MAIN, at + 20, "21.137")
    out.device_work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", op, COMPUTE_STREAM, (correlation, MAIN, time), 10)


def _forward_layer(out: _Writer, layer: int, at: int, caller: int) -> None:
    if layer < 2:
        out.function("torch/nn/modules/linear.py(125): forward", caller, at - 5, 120)
    out.op("cpu_op", "aten::linear", MAIN, at, 110)
    op = out.op("cpu_op", "aten::addmm", MAIN, at + 15, 80)
    kernels = (_GEMM, _SPLIT) if layer == 0 else (_GEMM,)
    for number, kernel in enumerate(kernels):
        correlation, time = out.call("cudaLaunchKernel", op, MAIN, at + 35 + 25 * number, "7.250")
        out.device_work("kernel", kernel, op, COMPUTE_STREAM, (correlation, MAIN, time), 40)


def _backward_layer(out: _Writer, at: int, *, reduces: bool) -> None:
    outer = out.op("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", AUTOGRAD, at, 50)
    op = out.op("cpu_op", "aten::mm", AUTOGRAD, at + 5, 25)
    correlation, time = out.call("cudaLaunchKernel", op, AUTOGRAD, at + 13, "6.125")
    out.device_work("kernel", _GEMM, op, COMPUTE_STREAM, (correlation, AUTOGRAD, time), 95)
    if reduces:
        correlation, time = out.call("cudaLaunchKernelExC", outer, AUTOGRAD, at + 36, "8.375")
        out.device_work("kernel", _REDUCE, outer, NCCL_STREAM, (correlation, AUTOGRAD, time), 70)


def _step(out: _Writer, number: int, module: int) -> None:
    at = 500 + number * STEP_PERIOD
    step = out.op("user_annotation", f"ProfilerStep#{10 + number}", MAIN, at, STEP_PERIOD - 100)
    caller = out.function("train.py(40): train_step", module, at + 5, STEP_PERIOD - 200)
    _copy_in(out, at + 50)
    out.op("user_annotation", "forward", MAIN, at + 180, 800)
    for layer in range(5):
        _forward_layer(out, layer, at + 200 + 150 * layer, caller)
    for layer in range(4):
        _backward_layer(out, at + 1100 + 60 * layer, reduces=layer < 3 or number == 0)
    out.call("cudaDeviceSynchronize", step, MAIN, at + 2000, "300.000")


def seed_trace() -> bytes:
    """Rank 0 of 2: 60 operators on 2 threads, 40 kernels on 2 streams, copies, Python functions, steps and arrows."""
    out = _Writer()
    module = out.function("train.py(1): <module>", None, 100, WINDOW - 150)
    for number in range(STEPS):
        _step(out, number, module)
    events = [*out.spans, *out.functions, *out.device, *_labels(), *_ending()]
    return (_HEAD + SEPARATOR.join(events) + _TAIL).encode()
