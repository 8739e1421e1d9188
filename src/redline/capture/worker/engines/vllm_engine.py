"""The steps and the requests of a vLLM engine, seen where its own code reads what it calls next.

A step reads `schedule`, `execute_model`, perhaps `sample_tokens`, `update_from_output` and `post_step`, in this order;
with a queue of batches, the first three of the next step come before the last two of this one.
"""

from __future__ import annotations

import os
import sys
from time import monotonic_ns

from redline.capture.process import has_bf16_units
from redline.capture.worker.engines.engine_log import tell_reads
from redline.capture.worker.exception_origin import pass_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType, ModuleType
    from typing import Any

    from redline.capture.worker.engines.engine_log import EngineHooks, EngineLog

_DRAFTS = "scheduled_spec_decode_tokens"
_FORWARD = "gpu_model_runner: forward"
_WINDOW = "redline: window"
_MOST_OPEN = 64  # steps that were begun and not ended: more are of an engine that gave them up
PREFIX_TOKENS = 64  # that one number stands for
MOST_PREFIXES = 64  # of a prompt
# A name for it, the attributes of SamplingParams, and what they are where nobody asks.
_ASKS: tuple[tuple[str, tuple[str, ...], tuple[Any, ...]], ...] = (
    ("logprobs", ("logprobs", "prompt_logprobs"), (None,)),
    ("penalties", ("presence_penalty", "frequency_penalty", "repetition_penalty"), (0, 1)),
    ("filters", ("top_k", "top_p", "min_p"), (0, 1, -1)),
    ("structure", ("structured_outputs",), (None,)),
    ("biases", ("logit_bias", "allowed_token_ids", "bad_words"), (None, [], {})),
)


class VllmEngine:
    """One engine in this process."""

    def __init__(self, log: EngineLog, hooks: EngineHooks) -> None:
        self._log = log
        self._hooks = hooks
        self._cost_ns = 0  # of windows, that has been told
        self._number = 0
        self._schedule_ns = 0
        self._open: dict[int, _Step] = {}  # by the scheduler's output
        self._updated: _Step | None = None
        self._is_set_up = False
        self._has_told_cores = False
        self._has_told_threads = False
        self._computes_here = False  # otherwise workers in other processes count their own steps

    def core_loaded(self, module: ModuleType) -> None:
        """`vllm.v1.engine.core` has been imported."""
        core = module.EngineCore
        for name in ("step", "step_with_batch_queue"):  # read once, when the engine is made
            tell_reads(core, name, self._made)
        tell_reads(core, "add_request", self._request_came)
        tell_reads(core, "abort_requests", self._aborted)
        tell_reads(core, "post_step", self._ended)

    def utils_loaded(self, module: ModuleType) -> None:
        """`vllm.v1.utils`: the engine asks it for a context around each of its phases."""
        plain = module.record_function_or_nullcontext
        # Before the engine binds its threads to some of them.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0

        def phase(name: str) -> TimedPhase:
            self._tell_threads(name, cores)
            self._tell_cost()
            return TimedPhase(name, self._log)

        if getattr(module, "_PROFILER_FUNC", self) is None and callable(plain):
            module._PROFILER_FUNC = phase  # type: ignore[attr-defined]

    def _made(self, core: Any, _: FrameType) -> None:
        if self._is_set_up:
            return
        self._is_set_up = True
        self._computes_here = hasattr(core.model_executor, "driver_worker")
        tell_reads(type(core.scheduler), "schedule", self._scheduling)
        tell_reads(type(core.scheduler), "update_from_output", self._updating)
        tell_reads(type(core.model_executor), "execute_model", self._executing)
        tell_reads(type(core.model_executor), "sample_tokens", self._sampling)
        self._log.tell({**_facts_of(core), "prefix_tokens": PREFIX_TOKENS})

    def _tell_threads(self, name: str, cores: int) -> None:
        """Once, and of the process in which the model computes: by then, threads are what they will be.

        A worker may be bound to some of the cores by now: the others are told by the process that began it.
        """
        if not self._has_told_cores:
            self._has_told_cores = True
            self._log.tell({"cores": cores})
        if name == _FORWARD and not self._has_told_threads:
            self._has_told_threads = True
            torch = sys.modules.get("torch")
            if torch is not None:
                told = {"threads": torch.get_num_threads(), "is_traced": sys.gettrace() is not None}
                self._log.tell({**told, "has_bf16_units": has_bf16_units()})

    def _tell_cost(self) -> None:
        """Log what windows have cost since the last phase as a phase of its own: nobody may take it for another."""
        cost_ns = self._hooks.cost_ns()
        if cost_ns > self._cost_ns:
            now_ns = monotonic_ns()
            self._log.add("phase", _WINDOW, now_ns - (cost_ns - self._cost_ns), now_ns)
            self._cost_ns = cost_ns

    def _request_came(self, core: Any, frame: FrameType) -> None:
        """Read where it is called, with the request at hand."""
        now_ns = monotonic_ns()
        request: Any = frame.f_locals.get("req")
        if request is not None:
            asks = asks_of(getattr(request, "sampling_params", None))
            prefixes = prefix_numbers(getattr(request, "prompt_token_ids", None))
            known = (request.request_id, request.num_prompt_tokens, request.max_tokens)
            self._log.add("request", now_ns, *known, asks, prefixes)

    def _aborted(self, core: Any, frame: FrameType) -> None:
        self._log.add("abort", monotonic_ns())

    def _scheduling(self, scheduler: Any, frame: FrameType) -> None:
        self._schedule_ns = monotonic_ns()

    def _executing(self, executor: Any, frame: FrameType) -> None:
        now_ns = monotonic_ns()
        output = frame.f_locals.get("scheduler_output")
        core = frame.f_locals.get("self")
        if output is None or core is None or not self._schedule_ns:
            return
        if len(self._open) >= _MOST_OPEN:
            self._open.clear()
        self._number += 1
        step = _Step(self._number, self._schedule_ns, now_ns, output, core.scheduler)
        self._open[id(output)] = step
        self._schedule_ns = 0
        self._hooks.load_told(*step.load)

    def _sampling(self, executor: Any, frame: FrameType) -> None:
        step = self._open.get(id(frame.f_locals.get("scheduler_output")))
        if step is not None and not step.sample_ns:
            step.sample_ns = monotonic_ns()

    def _updating(self, scheduler: Any, frame: FrameType) -> None:
        now_ns = monotonic_ns()
        self._updated = self._open.pop(id(frame.f_locals.get("scheduler_output")), None)
        if self._updated is not None:
            self._updated.update_ns = now_ns

    def _ended(self, core: Any, frame: FrameType) -> None:
        now_ns = monotonic_ns()
        step, self._updated = self._updated, None
        if step is None:
            return
        self._log.add(*step.record(now_ns, frame.f_locals.get("outputs")))
        if step.tokens and self._computes_here:
            self._hooks.step_ended()


class TimedPhase:
    """The context that the engine puts around a phase of its step, with the name that it gives it."""

    __slots__ = ("_log", "_name", "_scope", "_start_ns")

    def __init__(self, name: str, log: EngineLog) -> None:
        self._name = name
        self._log = log
        self._scope: Any = None

    def __enter__(self) -> None:
        try:
            self._scope = _scope(self._name)
        except BaseException as error:  # noqa: BLE001 (the engine goes on, and this phase has no name in the trace)
            pass_on(error)
        self._start_ns = monotonic_ns()

    def __exit__(self, *error: object) -> None:
        self._log.add("phase", self._name, self._start_ns, monotonic_ns())
        if self._scope is not None:
            self._scope.__exit__(*error)


def _scope(name: str) -> Any:
    """While a window is recorded, the phase is named in its trace."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.autograd.profiler._is_profiler_enabled:
        return None
    scope = torch.profiler.record_function(name)
    scope.__enter__()
    return scope


class _Step:
    """A step from the moment when its batch is handed to the workers."""

    def __init__(self, number: int, schedule_ns: int, execute_ns: int, output: Any, scheduler: Any) -> None:
        self.number = number
        self.times_ns = (schedule_ns, execute_ns)
        self.sample_ns = 0
        self.update_ns = 0
        self.tokens = int(output.total_num_scheduled_tokens)
        self._output = output  # kept, so that its id is not given to another
        used = round(float(scheduler.kv_cache_manager.usage), 4)  # of the cache
        self._state = len(scheduler.running), len(scheduler.waiting), used
        self.load = self._state[:2]
        self._batch = _batch_of(output)
        self._preempted = sorted(output.preempted_req_ids or ())
        self._drafts = {name: len(tokens) for name, tokens in (getattr(output, _DRAFTS, None) or {}).items()}

    def record(self, end_ns: int, outputs: Any) -> tuple[object, ...]:
        times_ns = (*self.times_ns, self.sample_ns or self.update_ns, self.update_ns, end_ns)
        new = _new_tokens(outputs)
        accepted = sum(max(tokens - 1, 0) for name, tokens, _ in new if name in self._drafts)
        drafts = (sum(self._drafts.values()), accepted)
        return ("step", self.number, times_ns, self._batch, new, self._preempted, self._state, drafts)


def _batch_of(output: Any) -> list[tuple[str, int, int]]:
    """Requests in the batch: how many tokens of each are computed, and how many were before."""
    tokens = output.num_scheduled_tokens
    new = [(one.req_id, tokens.get(one.req_id, 0), one.num_computed_tokens) for one in output.scheduled_new_reqs]
    cached = output.scheduled_cached_reqs
    known = zip(cached.req_ids, cached.num_computed_tokens)  # noqa: B905 (Python 3.9 has no `strict`)
    return new + [(name, tokens.get(name, 0), computed) for name, computed in known]


def _new_tokens(outputs: Any) -> list[tuple[str, int, bool]]:
    """Requests that have got tokens in this step, how many, and whether they are over."""
    told = outputs.values() if isinstance(outputs, dict) else ()
    return [
        (one.request_id, len(one.new_token_ids), one.finish_reason is not None) for of in told for one in of.outputs
    ]


def _facts_of(core: Any) -> dict[str, object]:
    """The settings by which a step is judged; those that this version does not have are left out."""
    config = core.vllm_config
    found: dict[str, object] = {"engine": "vllm", "version": getattr(sys.modules["vllm"], "__version__", "")}
    for part, names in _SETTINGS.items():
        of = getattr(config, part, None)
        found |= {name: _plain(getattr(of, name)) for name in names if hasattr(of, name)}
    hf_config = getattr(getattr(config, "model_config", None), "hf_text_config", None)
    if hf_config is not None:
        found["model_config"] = {
            name: _plain(value) for name, value in hf_config.to_dict().items() if _is_figure(value)
        }
    return found


_SETTINGS = {
    "model_config": ("model", "dtype", "enforce_eager", "max_model_len", "quantization"),
    "cache_config": ("block_size", "num_gpu_blocks", "enable_prefix_caching", "cache_dtype"),
    "scheduler_config": (
        "max_num_seqs",
        "max_num_active_seqs",
        "max_num_batched_tokens",
        "max_num_scheduled_tokens",
        "long_prefill_token_threshold",
        "enable_chunked_prefill",
        "async_scheduling",
        "policy",
    ),
    "device_config": ("device_type",),
    "parallel_config": ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
    "speculative_config": ("num_speculative_tokens", "method"),
}


def _is_figure(value: object) -> bool:
    return isinstance(value, (bool, int, float, str))


def _plain(value: object) -> object:
    return value if _is_figure(value) or value is None else str(value)


def asks_of(params: Any) -> list[str]:
    """Names of what makes the choice of a token dearer."""
    return [
        name
        for name, attributes, unasked in _ASKS
        if params is not None and any(getattr(params, one, unasked[0]) not in unasked for one in attributes)
    ]


def prefix_numbers(tokens: Sequence[int] | None) -> list[int]:
    """One for each whole block at the beginning of a prompt, made of all tokens up to its end.

    Hashes of integers are the same in every process. They do not give a prompt away, but a guess can be checked.
    """
    numbers: list[int] = []
    known = 0
    for start in range(0, min(len(tokens or ()), PREFIX_TOKENS * MOST_PREFIXES) - PREFIX_TOKENS + 1, PREFIX_TOKENS):
        known = hash((known, *(tokens or ())[start : start + PREFIX_TOKENS]))
        numbers.append(known)
    return numbers
