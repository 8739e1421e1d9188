"""Steps and requests are seen where an engine's code reads what it calls next.

The engine here reads in the order in which that of vLLM does; tests/e2e/test_vllm.py has the real one.
"""

import os
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from redline.capture.worker.engines import engine_log
from redline.capture.worker.engines.engine_log import EngineHooks, EngineLog
from redline.capture.worker.engines.vllm_engine import MOST_PREFIXES, PREFIX_TOKENS, VllmEngine, asks_of, prefix_numbers
from redline.capture.worker.engines.vllm_server import VllmServer
from redline.serving.read_logs import read_serving
from redline.serving.request_ledger import request_ledger
from tests.support.made_engine import log_lines

ENGINE = """
from types import SimpleNamespace


class Scheduler:
    def __init__(self):
        self.running, self.waiting = [], []
        self.kv_cache_manager = SimpleNamespace(usage=0.25)

    def add_request(self, request):
        self.waiting.append(request)

    def schedule(self):
        new = [SimpleNamespace(req_id=one.request_id, num_computed_tokens=0) for one in self.waiting]
        cached = SimpleNamespace(
            req_ids=[one.request_id for one in self.running], num_computed_tokens=[one.computed for one in self.running]
        )
        tokens = {one.request_id: one.num_prompt_tokens for one in self.waiting}
        tokens |= {one.request_id: 1 for one in self.running}
        self.running += self.waiting
        self.waiting = []
        return SimpleNamespace(
            scheduled_new_reqs=new,
            scheduled_cached_reqs=cached,
            num_scheduled_tokens=tokens,
            total_num_scheduled_tokens=sum(tokens.values()),
            preempted_req_ids=set(),
        )

    def update_from_output(self, scheduler_output, model_output):
        outputs = []
        for one in list(self.running):
            one.computed += scheduler_output.num_scheduled_tokens[one.request_id]
            one.got += 1
            is_over = one.got == one.max_tokens
            if is_over:
                self.running.remove(one)
            outputs.append(
                SimpleNamespace(request_id=one.request_id, new_token_ids=[7], finish_reason="stop" if is_over else None)
            )
        return {0: SimpleNamespace(outputs=outputs)}


class Executor:
    driver_worker = None

    def execute_model(self, scheduler_output):
        with record_function_or_nullcontext("gpu_model_runner: forward"):
            sum(range(20_000))
        return None

    def sample_tokens(self, grammar):
        return "tokens"


class EngineCore:
    def __init__(self):
        self.scheduler, self.model_executor = Scheduler(), Executor()
        self.vllm_config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=4))
        self.step_fn = self.step

    def add_request(self, request):
        self.scheduler.add_request(request)

    def step(self):
        scheduler_output = self.scheduler.schedule()
        model_output = self.model_executor.execute_model(scheduler_output)
        if model_output is None:
            model_output = self.model_executor.sample_tokens(None)
        return self.scheduler.update_from_output(scheduler_output, model_output), True

    def post_step(self, model_executed):
        pass


_PROFILER_FUNC = None


def record_function_or_nullcontext(name):
    return _PROFILER_FUNC(name)


class OutputProcessor:
    def add_request(self, request):
        pass

    def process_outputs(self, outputs, queue):
        for output in outputs:
            req_id = output.request_id
            queue.put(output)


class RequestOutputCollector:
    def put(self, output):
        pass
"""


def hooks(counted: list[int], loads: list[tuple[int, int]], costs_ns: list[int] | None = None) -> EngineHooks:
    costs = iter(costs_ns or [])
    return EngineHooks(
        step_ended=lambda: counted.append(1),
        load_told=lambda *load: loads.append(load),
        cost_ns=lambda: next(costs, 0),
        no_timed_window=lambda: None,
        safely=lambda act: act(),
    )


def handle(core: Any, req: Any) -> None:
    core.add_request(req)


def one_step(core: Any) -> list[Any]:
    outputs, executed = core.step_fn()
    core.post_step(executed)
    return list(outputs[0].outputs)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(engine_log, "EVERY_S", 0.01)
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    module = ModuleType("made_engine_core")
    exec(ENGINE, vars(module))
    return module


def test_requests_are_followed_from_the_server_to_their_last_token(engine: ModuleType, tmp_path: Path) -> None:
    counted: list[int] = []
    loads: list[tuple[int, int]] = []
    watched = VllmEngine(EngineLog(str(tmp_path), "engine"), hooks(counted, loads))
    watched.core_loaded(engine)
    watched.utils_loaded(engine)
    VllmServer(EngineLog(str(tmp_path), "server")).loaded(engine)
    core, processor, queue = engine.EngineCore(), engine.OutputProcessor(), engine.RequestOutputCollector()
    for name, prompt, wanted in (("a", 5, 3), ("b", 9, 2)):
        request = SimpleNamespace(request_id=name, num_prompt_tokens=prompt, max_tokens=wanted, computed=0, got=0)
        request.arrival_time = time.time()
        processor.add_request(request)
        handle(core, request)
    for _ in range(3):
        processor.process_outputs(one_step(core), queue)
    assert len(counted) == 3
    log_lines(tmp_path / f"engine-{os.getpid()}.jsonl", 10)
    log_lines(tmp_path / f"server-{os.getpid()}.jsonl", 11)
    recording = read_serving(tmp_path)
    ledger = request_ledger(recording)
    assert recording.dropped_lines == 0
    assert recording.settings["max_num_seqs"] == 4
    assert recording.batch.tokens.tolist() == [5, 9, 1, 1, 1]
    assert ledger.tokens.tolist() == [3, 2]
    assert (ledger.to_last_token.amounts_ns.sum(axis=1) == ledger.to_last_token.length_ns).all()
    assert recording.steps.cache_share.tolist() == [0.25] * 3
    assert loads == [(2, 0), (2, 0), (1, 0)]


def test_an_engine_that_has_workers_elsewhere_counts_no_steps(engine: ModuleType, tmp_path: Path) -> None:
    counted: list[int] = []
    loads: list[tuple[int, int]] = []
    del engine.Executor.driver_worker
    watched = VllmEngine(EngineLog(str(tmp_path), "engine"), hooks(counted, loads))
    watched.core_loaded(engine)
    watched.utils_loaded(engine)
    core = engine.EngineCore()
    handle(core, SimpleNamespace(request_id="a", num_prompt_tokens=5, max_tokens=1, computed=0, got=0))
    one_step(core)
    assert counted == []
    assert log_lines(tmp_path / f"engine-{os.getpid()}.jsonl", 5)[-1][0] == "step"


def test_an_engine_of_another_version_runs_on(engine: ModuleType, tmp_path: Path) -> None:
    """Without the names that are looked for, nothing is told, and nothing fails."""
    watched = VllmEngine(EngineLog(str(tmp_path), "engine"), hooks([], []))
    watched.core_loaded(engine)
    watched.utils_loaded(engine)
    core = engine.EngineCore()
    core.scheduler.kv_cache_manager = None
    handle(core, SimpleNamespace(request_id="a", num_prompt_tokens=5, max_tokens=1, computed=0, got=0))
    assert len(one_step(core)) == 1


def test_what_a_window_cost_is_no_time_of_the_engine(engine: ModuleType, tmp_path: Path) -> None:
    watched = VllmEngine(EngineLog(str(tmp_path), "engine"), hooks([], [], [5_000, 5_000, 9_000]))
    watched.utils_loaded(engine)
    for _ in range(3):
        with engine.record_function_or_nullcontext("forward"):
            pass
    told = log_lines(tmp_path / f"engine-{os.getpid()}.jsonl", 7)
    phases: list[Any] = [record[1:] for record in told if record[0] == "phase"]
    windows = [end_ns - start_ns for name, start_ns, end_ns in phases if name == "redline: window"]
    assert windows == [5_000, 4_000]


# What a request asks for, and where prompts begin alike.

UNASKED = {
    "logprobs": None,
    "prompt_logprobs": None,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "structured_outputs": None,
    "logit_bias": None,
    "allowed_token_ids": None,
    "bad_words": None,
}


@pytest.mark.parametrize(
    ("changed", "asks"),
    [
        ({}, []),
        ({"top_k": -1}, []),
        ({"logprobs": 0}, ["logprobs"]),
        ({"prompt_logprobs": 5}, ["logprobs"]),
        ({"repetition_penalty": 1.1}, ["penalties"]),
        ({"top_p": 0.9, "top_k": 50}, ["filters"]),
        ({"structured_outputs": SimpleNamespace(json="{}")}, ["structure"]),
        ({"bad_words": ["no"], "logit_bias": {3: -100.0}}, ["biases"]),
    ],
)
def test_what_a_request_asks_for(changed: dict[str, object], asks: list[str]) -> None:
    assert asks_of(SimpleNamespace(**{**UNASKED, **changed})) == asks


def test_a_request_without_parameters_asks_for_nothing() -> None:
    assert asks_of(None) == []
    assert asks_of(SimpleNamespace()) == []


def test_prompts_that_begin_alike_have_the_same_numbers_up_to_there() -> None:
    common = list(range(3 * PREFIX_TOKENS))
    one, other = prefix_numbers([*common, *range(200)]), prefix_numbers([*common, *range(100, 300)])
    assert one[:3] == other[:3]
    assert not set(one[3:]) & set(other[3:])
    assert prefix_numbers([9, *common])[0] != one[0]


@pytest.mark.parametrize(
    ("tokens", "numbers"), [(0, 0), (63, 0), (64, 1), (127, 1), (128, 2), (100_000, MOST_PREFIXES)]
)
def test_whole_blocks_are_numbered(tokens: int, numbers: int) -> None:
    assert len(prefix_numbers([1] * tokens)) == numbers


def test_a_prompt_of_other_things_than_tokens_has_none() -> None:
    assert prefix_numbers(None) == []
