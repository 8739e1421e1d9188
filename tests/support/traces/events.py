"""Which events Kineto would emit for a step of a program: operators, launches, kernels, arrows, annotations, frames.

Three sections, in the order of a real file: "cpu" (operators and annotations), "python" (frames), "device" (launches
and what ran on the GPU). The events of an item are placed inside the host time of that item by fixed shares, so that
frame > operator > inner operator > launch call always nest; what surrounds whole items hugs them by nanoseconds.
"""

from dataclasses import replace
from itertools import groupby

from tests.support.traces.jobspec import JobSpec
from tests.support.traces.kineto_text import SLOT, EventSpan, Id, Ref, StepCompiler, StepText, token
from tests.support.traces.messages import Message
from tests.support.traces.operators import HIDDEN, TYPE_NAME, Op
from tests.support.traces.program import BUFFER_BYTES, COMPUTE_STREAM, Item, Program, rows_per_microbatch
from tests.support.traces.shapes import backward_shapes, forward_shapes
from tests.support.traces.simulate import LAUNCH_AT

SECTIONS = ("cpu", "python", "device")
LAYER_FRAMES = (
    "torch/nn/modules/module.py(1775): _wrapped_call_impl",
    "torch/nn/modules/module.py(1786): _call_impl",
    "model.py(31): forward",
)
MODULE_FRAMES = LAYER_FRAMES[:2]
BACKWARD_FRAMES = (
    "torch/_tensor.py(630): backward",
    "torch/autograd/__init__.py(364): backward",
    "torch/autograd/graph.py(865): _engine_run_backward",
    "<built-in method run_backward of torch._C._EngineBase object at 0x7f0000000000>",
)
OPTIMIZER_FRAMES = ("torch/optim/optimizer.py(515): wrapper", "torch/optim/adamw.py(243): step")

_OUTER, _INNER, _DEEP = (0.20, 0.91), (0.25, 0.89), (0.29, 0.87)
_BARE = (0.02, 0.98)  # of a call without an operator: inside all frames
_LEVEL_NS = 2
_ANNOTATION_LEVEL = 16  # inside all frames
_LAUNCH = (LAUNCH_AT, 0.85)
_WAITS, _RECORD = (0.30, 0.34), (0.855, 0.865)  # before the launch, and after it, inside the innermost operator
_SYNC_OF_CALL = {"cudaStreamSynchronize": "Stream Sync", "cudaDeviceSynchronize": "Context Sync"}
_BF16, _SCALAR = "c10::BFloat16", "Scalar"
_MAIN, _AUTOGRAD = token("pid"), token("autograd_tid")
_PID, _DEVICE = token("pid"), token("device")


def step_sections(spec: JobSpec, program: Program, stage: int) -> dict[str, StepText]:
    """The text of one step of this program, by section, before it is bound to a rank."""
    return _StepEvents(spec, program, stage).compile()


class _StepEvents:
    """Emits the events of one step, item by item."""

    def __init__(self, spec: JobSpec, program: Program, stage: int) -> None:
        self.spec, self.program = spec, program
        self.out = StepCompiler(spec.text_layout)
        self.rows = rows_per_microbatch(spec, stage)
        self.around: Id | None = None  # External id of the operator that covers the next items as well
        self.graph: Id | None = None  # correlation of the launch of the graph
        self.event_records: dict[int, Id] = {}  # correlation of the call that recorded an event after an item
        self.forward_nodes: dict[tuple[int, int], list[tuple[Id, Id]]] = {}  # (sequence number, arrow), latest last

    def compile(self) -> dict[str, StepText]:
        self._step_marks()
        for index, item in enumerate(self.program):
            emit = {
                "input": self._input,
                "pause": self._nothing,
                "resume": self._nothing,
                "copy_in": self._copy_in,
                "compute": self._compute,
                "copy_within": self._copy_within,
                "copy_out": self._copy_out,
                "graph": self._graph,
                "sync": self._sync,
                "call": self._call,
            }.get(item.kind, self._message)
            emit(index, item)
        if self.spec.sync_events:
            self._waits_between_streams()
        if self.spec.with_stacks:
            self._frames()
        return self.out.compiled()

    # Where events lie

    def _host(self, first: int, last: int, within: tuple[float, float], tid: str = _MAIN) -> EventSpan:
        """From a share of one item's host time to a share of another's."""
        return EventSpan(_PID, tid, Ref(first, within[0]), Ref(last, within[1]))

    def _around(self, first: int, last: int, level: int) -> EventSpan:
        """Over whole items on the main thread, deeper levels inside shallower ones."""
        return EventSpan(_PID, _MAIN, Ref(first, 0.0, level * _LEVEL_NS), Ref(last, 1.0, -level * _LEVEL_NS))

    def _device(self, first: int, last: int) -> EventSpan:
        """From the start of one item's device work to the end of another's, on the first one's stream."""
        count = len(self.program)
        return EventSpan(_DEVICE, str(self.program[first].stream), Ref(count + first, 0.0), Ref(count + last, 1.0))

    # Annotations

    def _step_marks(self) -> None:
        last = len(self.program) - 1
        compute = [index for index, item in enumerate(self.program) if item.stream == COMPUTE_STREAM]
        if self.spec.engine:  # what it does between steps is outside of the mark
            name = f"execute_context_0(0)_generation_{self.rows}({self.rows})"
            external = self._annotation(name, self._around(compute[0], last, 0))
            self._gpu_annotation(name, self._device(compute[0], compute[-1]), (external,))
            return
        number, name = self.out.new_id("step"), f"ProfilerStep#{SLOT}"
        external = self._annotation(name, self._around(0, last, 0), name_ids=(number,))
        self._gpu_annotation(name, self._device(compute[0], compute[-1]), (number, external))

    def _annotation(self, name: str, span: EventSpan, *, name_ids: tuple[Id, ...] = (), inputs: str = "") -> Id:
        external = self.out.new_id("external")
        args = f'"External id": {SLOT},"Record function id": 0, {inputs}"Ev Idx": {SLOT}'
        ids = (*name_ids, external, self.out.new_id("event"))
        self.out.complete("cpu", cat="user_annotation", name=name, span=span, args=args, ids=ids)
        return external

    def _gpu_annotation(self, name: str, span: EventSpan, ids: tuple[Id, ...]) -> None:
        args = f'"External id": {SLOT}'
        self.out.complete("device", cat="gpu_user_annotation", name=name, span=span, args=args, ids=ids)

    # Operators

    def _operator(
        self,
        name: str,
        span: EventSpan,
        shapes: list[list[int]],
        *,
        dtype: str = _BF16,
        node: tuple[Id, int] | None = None,
        extra: str = "",
        extra_ids: tuple[Id, ...] = (),
    ) -> Id:
        """Emit an operator; `node` is its autograd sequence number and forward thread. Returns its External id."""
        external = self.out.new_id("external")
        numbered = f'"Sequence number": {SLOT}, "Fwd thread id": {node[1]}, ' if node else ""
        inputs = f"{_inputs_text(shapes, dtype)}, " if shapes else ""
        args = f'"External id": {SLOT},{numbered}"Record function id": 0, {extra}{inputs}"Ev Idx": {SLOT}'
        ids = (external, *(node[:1] if node else ()), *extra_ids, self.out.new_id("event"))
        self.out.complete("cpu", cat="cpu_op", name=name, span=span, args=args, ids=ids)
        return external

    def _nothing(self, index: int, item: Item) -> None:
        """A pause or a return from waiting leaves no event of its own, only time (and a frame, with stacks)."""

    def _input(self, index: int, item: Item) -> None:
        loader = "MultiProcessing" if self.spec.loader_workers else "SingleProcess"
        name = f"enumerate(DataLoader)#_{loader}DataLoaderIter.__next__"
        self._annotation(name, self._around(index, index, _ANNOTATION_LEVEL))

    def _compute(self, index: int, item: Item) -> None:
        assert item.op is not None
        if item.replayed:
            self._replayed(index, item.op.kernel if item.phase != "backward" else item.op.backward_kernel)
        elif item.recomputed:
            self._recomputed(index, item, item.op)
        elif item.phase == "forward":
            self._forward(index, item, item.op)
        elif item.phase == "backward":
            self._backward(index, item, item.op)
        else:
            self._optimizer(index, item.op)

    def _forward(self, index: int, item: Item, op: Op) -> None:
        if item.inside:
            assert self.around is not None
            self._kernel(index, op.kernel, self.around, _MAIN)
            return
        sequence, arrow = self.out.new_id("sequence"), self.out.new_id("fwdbwd")
        span = self._forward_operators(index, item, op, _MAIN, (sequence, 0))
        if op.backward_parts:
            self.out.flow("cpu", phase="s", cat="fwdbwd", number=arrow, span=span)
            self.forward_nodes.setdefault((item.microbatch, item.layer), []).append((sequence, arrow))

    def _forward_operators(
        self, index: int, item: Item, op: Op, tid: str, node: tuple[Id, int] | None = None
    ) -> EventSpan:
        """The operators of a forward item and its kernel; returns where the innermost one lies."""
        outer_shapes, inner_shapes = forward_shapes(op, self.rows)
        dtype, last = TYPE_NAME[op.precision], index + item.covers
        span = self._host(index, last, _OUTER, tid)
        external = self._operator(op.name, span, outer_shapes, dtype=dtype, node=node)
        if op.inner:
            span = self._host(index, last, _INNER, tid)
            external = self._operator(op.inner, span, inner_shapes, dtype=dtype, node=node)
        self.around = external
        self._kernel(index, op.kernel, external, tid)
        return span

    def _recomputed(self, index: int, item: Item, op: Op) -> None:
        """A forward operator inside a node of the backward pass, whose first item covers the others."""
        if item.covers:
            node = (self.out.new_id("sequence"), 1)
            span = EventSpan(_PID, _AUTOGRAD, Ref(index, 0.1), Ref(index + item.covers, 0.95))
            name = "autograd::engine::evaluate_function: CheckpointFunctionBackward"
            self._operator(name, span, [], node=node)
            inside = EventSpan(_PID, _AUTOGRAD, Ref(index, 0.15), Ref(index + item.covers, 0.93))
            self._operator("CheckpointFunctionBackward", inside, [], node=node)
        # Autograd numbers them as in the forward pass.
        self._forward_operators(index, replace(item, covers=0), op, _AUTOGRAD, (self.out.new_id("sequence"), 0))

    def _backward(self, index: int, item: Item, op: Op) -> None:
        if item.part == 0:
            last = index + op.backward_parts - 1
            sequence, arrow = self.forward_nodes[item.microbatch, item.layer].pop()
            outer, span = self._host(index, last, _OUTER, _AUTOGRAD), self._host(index, last, _INNER, _AUTOGRAD)
            self._operator(f"autograd::engine::evaluate_function: {op.backward}", outer, [], node=(sequence, 1))
            self._operator(op.backward, span, [], node=(sequence, 1))
            self.out.flow("cpu", phase="f", cat="fwdbwd", number=arrow, span=span)
        inside, shapes = self._host(index, index, _DEEP, _AUTOGRAD), backward_shapes(op, item.part, self.rows)
        external = self._operator(op.backward_inner, inside, shapes, dtype=TYPE_NAME[op.precision])
        self._kernel(index, op.backward_kernel, external, _AUTOGRAD)

    def _optimizer(self, index: int, op: Op) -> None:
        if self.program[index - 1].phase != "optimizer":
            last = max(i for i, item in enumerate(self.program) if item.phase == "optimizer")
            self._annotation("Optimizer.step#AdamW.step", self._around(index, last, _ANNOTATION_LEVEL))
        external = self._operator(op.name, self._host(index, index, _OUTER), [[HIDDEN, 4 * HIDDEN]] * 4)
        self._kernel(index, op.kernel, external, _MAIN)

    def _copy_in(self, index: int, item: Item) -> None:
        last, size_bytes = index + item.covers, item.size_bytes or 8 * self.rows
        shape = [self.rows] if not item.size_bytes else [item.size_bytes // 2]
        self._operator("aten::to", self._host(index, last, _OUTER), [shape])
        external = self._operator("aten::copy_", self._host(index, last, _INNER), [shape, shape])
        self._copy(index, external, f"Memcpy HtoD ({'Pageable' if item.pageable else 'Pinned'} -> Device)", size_bytes)

    def _copy_within(self, index: int, item: Item) -> None:
        """A buffer that DDP's forward copies back from the broadcast; the region of that forward is around it."""
        if self.program[index - 1].kind != "copy_within":
            last = max(i for i, other in enumerate(self.program) if other.phase == "forward")
            self._annotation("DistributedDataParallel.forward", self._around(index - 1, last, _ANNOTATION_LEVEL))
        shape = [BUFFER_BYTES // 2]
        external = self._operator("aten::copy_", self._host(index, index, _OUTER), [shape, shape])
        self._copy(index, external, "Memcpy DtoD (Device -> Device)", BUFFER_BYTES)

    def _copy_out(self, index: int, item: Item) -> None:
        self._operator("aten::item", self._host(index, index + 2, _OUTER), [[]])
        external = self._operator("aten::_local_scalar_dense", self._host(index, index + 2, _INNER), [[]])
        self._copy(index, external, "Memcpy DtoH (Device -> Pageable)", 4)

    def _message(self, index: int, item: Item) -> None:
        message = item.message
        assert message is not None
        tid = _thread_of(item)
        shapes = [[message.bytes_in // message.element_bytes]]
        self._operator(message.call, self._host(index, index, _OUTER, tid), shapes)
        external = self._record_comms(message, self._host(index, index, _INNER, tid))
        name = message.annotation + _peer_text(message)
        span = self._host(index, index, _DEEP, tid)
        annotation = self._annotation(name, span, inputs=f"{_inputs_text(shapes)}, ")
        args = _kernel_args(item.stream, grid=24, block=512, registers=96, shared_bytes=82_240)
        if self.spec.collective_metadata:
            args += f", {_collective_args(message)}"
        correlation = self._on_device(index, "kernel", message.kernel, args, external)
        self._launch(index, "cudaLaunchKernelExC", 430, (external, correlation), tid)
        self._gpu_annotation(name, self._device(index, index), (annotation,))

    def _record_comms(self, message: Message, span: EventSpan) -> Id:
        if not self.spec.collective_metadata:
            return self._operator("record_param_comms", span, [])
        extra = f'{_collective_args(message)}, "Seq": {SLOT}, "Rank": {token("rank")}, '
        number = self.out.new_id(f"seq_{message.axis}")
        return self._operator("record_param_comms", span, [], extra=extra, extra_ids=(number,))

    # Launches and what they launch

    def _sync(self, index: int, item: Item) -> None:
        correlation = self.out.new_id("correlation")
        within = _BARE if item.call else (0.0, 1.0)
        name = item.call or "cudaStreamSynchronize"
        self._launch(index, name, 131, (correlation,), _MAIN, within=within)
        if self.spec.sync_events and name in _SYNC_OF_CALL:
            stream = str(COMPUTE_STREAM) if name == "cudaStreamSynchronize" else "-1"
            self._sync_event(_SYNC_OF_CALL[name], stream, self._host(index, index, within), "", (correlation,))

    # Recorded waits

    def _waits_between_streams(self) -> None:
        """An event after each item that another stream waits for, and the waits for it."""
        for index, item in enumerate(self.program):
            others = [waited for waited in item.waits if self.program[waited].stream != item.stream]
            for place, waited in enumerate(others):
                if waited not in self.event_records:
                    self.event_records[waited] = self._event_record(waited)
                self._stream_wait(index, waited, place / len(others), 1 / len(others))

    def _event_record(self, index: int) -> Id:
        """The call right after the launch of an item, and the mark of when the device came to it."""
        item, correlation = self.program[index], self.out.new_id("correlation")
        self._launch(index, "cudaEventRecord", 135, (correlation,), _thread_of(item), within=_RECORD)
        end = Ref(len(self.program) + index, 1.0)
        span = EventSpan(_DEVICE, str(item.stream), end, replace(end, offset_ns=1))
        args = f'"event_id": {index + 1}, "stream": {item.stream}, "correlation": {SLOT}, "device": {_DEVICE}'
        self.out.complete(
            "device", cat="cuda_event", name="cudaEvent", span=span, args=f'{args}, "context": 1', ids=(correlation,)
        )
        return correlation

    def _stream_wait(self, index: int, waited: int, place: float, share: float) -> None:
        item, begin, length = self.program[index], _WAITS[0], _WAITS[1] - _WAITS[0]
        within = (begin + place * length, begin + (place + share) * length)
        correlation = self.out.new_id("correlation")
        self._launch(index, "cudaStreamWaitEvent", 147, (correlation,), _thread_of(item), within=within)
        waits_for = (
            f'"wait_on_stream": {self.program[waited].stream}, "wait_on_cuda_event_record_corr_id": {SLOT}, '
            f'"wait_on_cuda_event_id": {waited + 1}, '
        )
        span = self._host(index, index, within)
        ids = (self.event_records[waited], correlation)
        self._sync_event("Stream Wait Event", str(item.stream), span, waits_for, ids)

    def _sync_event(self, name: str, stream: str, span: EventSpan, waits_for: str, ids: tuple[Id, ...]) -> None:
        args = (
            f'"cuda_sync_kind": "{name}", {waits_for}"stream": {stream}, "correlation": {SLOT}, '
            f'"device": {_DEVICE}, "context": 1'
        )
        span = replace(span, pid=_DEVICE, tid=stream)
        self.out.complete("device", cat="cuda_sync", name=name, span=span, args=args, ids=ids)

    def _call(self, index: int, item: Item) -> None:
        self._launch(index, item.call, 20, (self.out.new_id("correlation"),), _MAIN, within=_BARE)

    def _graph(self, index: int, item: Item) -> None:
        self.graph = self.out.new_id("correlation")
        self._launch(index, "cudaGraphLaunch", 311, (self.graph,), _MAIN)

    def _replayed(self, index: int, name: str) -> None:
        """A node of the graph: no operator and no launch of its own, so its shapes are not known."""
        assert self.graph is not None
        args = _kernel_args(COMPUTE_STREAM, grid=264, block=256, registers=168, shared_bytes=212_992)
        args += f', "graph node id": {index}, "graph id": 1'
        ids = (self.out.new_id("external"), self.graph)
        self.out.complete("device", cat="kernel", name=name, span=self._device(index, index), args=args, ids=ids)

    def _kernel(self, index: int, name: str, external: Id, tid: str) -> None:
        args = _kernel_args(self.program[index].stream, grid=264, block=256, registers=168, shared_bytes=212_992)
        correlation = self._on_device(index, "kernel", name, args, external)
        self._launch(index, "cudaLaunchKernel", 211, (external, correlation), tid)

    def _copy(self, index: int, external: Id, name: str, size_bytes: int) -> None:
        args = (
            f'"External id": {SLOT},      "device": {_DEVICE}, "context": 1,      "stream": {COMPUTE_STREAM}, '
            f'"correlation": {SLOT},      "bytes": {size_bytes}, "memory bandwidth (GB/s)": 0.5'
        )
        correlation = self._on_device(index, "gpu_memcpy", name, args, external)
        self._launch(index, "cudaMemcpyAsync", 41, (external, correlation), _MAIN)

    def _on_device(self, index: int, cat: str, name: str, args: str, external: Id) -> Id:
        correlation = self.out.new_id("correlation")
        span = self._device(index, index)
        self.out.complete("device", cat=cat, name=name, span=span, args=args, ids=(external, correlation))
        self.out.flow("device", phase="f", cat="ac2g", number=correlation, span=span)
        return correlation

    def _launch(
        self,
        index: int,
        name: str,
        cbid: int,
        ids: tuple[Id, ...],
        tid: str,
        *,
        within: tuple[float, float] = _LAUNCH,
    ) -> None:
        """Emit a runtime call; `ids` are the operator's External id, if any, and the correlation."""
        linked = f'"External id": {SLOT},' if len(ids) > 1 else ""
        args = f'{linked}      "cbid": {cbid}, "correlation": {SLOT}'
        span = self._host(index, index, within, tid)
        self.out.complete("device", cat="cuda_runtime", name=name, span=span, args=args, ids=ids)
        self.out.flow("device", phase="s", cat="ac2g", number=ids[-1], span=span)

    # Python frames

    def _frames(self) -> None:
        last = len(self.program) - 1
        root = self._stack(("train.py(61): train_step",), 0, last, 1, None)
        items = list(enumerate(self.program))
        for (phase, _), group in groupby(items, key=lambda pair: (pair[1].phase, pair[1].microbatch)):
            block = list(group)
            first, final = block[0][0], block[-1][0]
            if phase == "input":
                self._stack(("torch/utils/data/dataloader.py(732): __next__",), 0, 0, 2, root)
                self._stack(("train.py(44): prepare_batch",), 1, 1, 2, root)
            elif phase == "forward":
                self._forward_frames(block, self._stack(("nn.Module: GPT_0", *LAYER_FRAMES), first, final, 2, root))
            elif phase == "backward":
                self._stack(BACKWARD_FRAMES, first, final, 2, root)
            elif phase == "exchange":
                self._stack(("train.py(52): reduce",), first, final, 2, root)
            elif phase == "optimizer":
                self._stack(OPTIMIZER_FRAMES, first, final, 2, root)
            else:
                self._stack(("<built-in method item of Tensor object at 0x7f0000000000>",), first, final, 2, root)

    def _forward_frames(self, block: list[tuple[int, Item]], parent: Id) -> None:
        for layer in range(self.spec.layers_per_stage):
            inside = [(index, item) for index, item in block if item.layer == layer]
            names = (f"nn.Module: Block_{layer}", *LAYER_FRAMES)
            frame = self._stack(names, inside[0][0], inside[-1][0], 6, parent)
            for position, (index, item) in enumerate(inside):
                assert item.op is not None  # others are of no layer
                builtin = f"<built-in function {item.op.name.removeprefix('aten::')}>"
                module = (f"nn.Module: {item.op.module}_{position}", *MODULE_FRAMES, item.op.frame)
                self._stack((*(module if item.op.module else ()), builtin), index, index, 10, frame)

    def _stack(self, names: tuple[str, ...], first: int, last: int, depth: int, parent: Id | None) -> Id:
        """Nested frames over the same items, outermost first; returns the innermost."""
        for level, name in enumerate(names, start=depth):
            frame = self.out.new_id("python")
            args = f'"Python parent id": {SLOT if parent else "null"}, "Python id": {SLOT}, "Ev Idx": {SLOT}'
            ids = (*((parent,) if parent else ()), frame, self.out.new_id("event"))
            span = self._around(first, last, level)
            self.out.complete("python", cat="python_function", name=name, span=span, args=args, ids=ids)
            parent = frame
        assert parent is not None
        return parent


def _thread_of(item: Item) -> str:
    return _AUTOGRAD if item.phase == "backward" else _MAIN


def _kernel_args(stream: int | None, *, grid: int, block: int, registers: int, shared_bytes: int) -> str:
    return (
        f'"External id": {SLOT},      "queued": 0, "device": {_DEVICE}, "context": 1,      "stream": {stream}, '
        f'"correlation": {SLOT},      "registers per thread": {registers},      "shared memory": {shared_bytes},      '
        f'"blocks per SM": {grid / 132:.6f},      "warps per SM": {grid * block / 32 / 132:.6f},      '
        f'"grid": [{grid}, 1, 1],      "block": [{block}, 1, 1],      "est. achieved occupancy %": 12'
    )


def _collective_args(message: Message) -> str:
    def group(what: str) -> str:
        return token(f"{message.axis}_{what}")

    peer = ""
    if message.direction is not None:
        peer = f', "{"Dst" if message.name == "send" else "Src"} Rank": {_peer_token(message)}'
    return (
        f'"Collective name": "{message.name}", "In msg nelems": {message.bytes_in // message.element_bytes}, '
        f'"Out msg nelems": {message.bytes_out // message.element_bytes}, "Group size": {group("size")}, '
        f'"dtype": "{message.dtype}", '
        f'"In split size": "[]", "Out split size": "[]", "Process Group Name": "{group("name")}", '
        f'"Process Group Description": "{group("description")}", "Process Group Ranks": "{group("ranks")}"{peer}'
    )


def _peer_token(message: Message) -> str:
    onward = (message.direction == "activation") == (message.name == "send")
    return token("next_stage" if onward else "previous_stage")


def _peer_text(message: Message) -> str:
    if message.direction is None:
        return ""
    return f" {token('stage')}{'->' if message.name == 'send' else '<-'}{_peer_token(message)}"


def _inputs_text(shapes: list[list[int]], dtype: str = _BF16) -> str:
    concrete = ", ".join('""' if shape else '"1"' for shape in shapes)
    types = ", ".join(f'"{dtype if shape else _SCALAR}"' for shape in shapes)
    strides = [_contiguous_strides(shape) for shape in shapes]
    return (
        f'"Concrete Inputs": [{concrete}], "Input type": [{types}], "Input Strides": {strides}, "Input Dims": {shapes}'
    )


def _contiguous_strides(shape: list[int]) -> list[int]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]
