"""A way to serve as the command that starts vLLM (0.10 and later) or SGLang (0.5)."""

from __future__ import annotations

from collections.abc import Iterator

from redline.errors import ParameterError, UsageError
from redline.plan.serve.serving_defaults import ENGINES
from redline.plan.serve.serving_plan import ServingPlan, ServingPoint
from redline.report.plan.launch.script import LaunchScript, render

KV_CACHE = {"vllm": "fp8", "sglang": "fp8_e4m3"}


def launch_script(plan: ServingPlan, engine: str) -> str:
    """The best way to serve. Raises ParameterError where there is no such engine, UsageError where nothing is best."""
    if engine not in ENGINES:
        raise ParameterError("emit", f" {engine}: there is no such engine; there are: {', '.join(ENGINES)}")
    best = plan.best
    if best is None:
        raise UsageError("plan serve: no configuration fits and meets the limits, so there is nothing to emit")
    missing = best.chance_of_missing
    surely = "" if missing is None else f"; probability of missing a limit {missing:.0%}"
    head = (
        f"{plan.model.name or 'a model'} on {best.tp} {plan.machine.name} in {best.dtype}, {best.concurrency} "
        f"concurrent requests of {plan.prompt:,} prompt and {plan.output:,} output tokens",
        f"predicted: TTFT {best.ttft_s.value * 1e3:.4g} ms, TPOT {best.tpot_s.value * 1e3:.4g} ms, "
        f"{best.tokens_per_s.value:.4g} tokens/s{surely}",
    )
    script = LaunchScript(
        command=tuple(_vllm(plan, best) if engine == "vllm" else _sglang(plan, best)),
        environment={"MODEL": plan.model.name or "PATH_OF_THE_MODEL"},
        not_expressed=_gaps(plan, best, engine),
        fill_in="MODEL: the name of a repository or a folder",
    )
    return render(head, script)


def _vllm(plan: ServingPlan, best: ServingPoint) -> Iterator[str]:
    yield from ("vllm", "serve", "$MODEL", "--tensor-parallel-size", str(best.tp // best.attention_dp))
    if best.attention_dp > 1:
        yield from ("--data-parallel-size", str(best.attention_dp), "--enable-expert-parallel")
    yield from ("--max-num-seqs", str(_sequences(best) // best.attention_dp or 1))
    yield from ("--max-model-len", str(plan.prompt + plan.output))
    yield from _formats(plan, best, "vllm")


def _sglang(plan: ServingPlan, best: ServingPoint) -> Iterator[str]:
    yield from ("python", "-m", "sglang.launch_server", "--model-path", "$MODEL", "--tp-size", str(best.tp))
    if best.attention_dp > 1:
        yield from ("--enable-dp-attention", "--dp-size", str(best.attention_dp), "--ep-size", str(best.tp))
    yield from ("--max-running-requests", str(_sequences(best)))
    yield from ("--context-length", str(plan.prompt + plan.output))
    yield from _formats(plan, best, "sglang")


def _sequences(best: ServingPoint) -> int:
    """That are decoded together: as many as are in flight, or as memory has room for."""
    return int(min(best.concurrency, best.batch))


def _formats(plan: ServingPlan, best: ServingPoint, engine: str) -> Iterator[str]:
    if best.dtype == "fp8":
        yield from ("--quantization", "fp8")
    if best.dtype in ("bf16", "fp16"):
        yield from ("--dtype", {"bf16": "bfloat16", "fp16": "float16"}[best.dtype])
    if plan.cache_dtype == "fp8":
        yield from ("--kv-cache-dtype", KV_CACHE[engine])


def _gaps(plan: ServingPlan, best: ServingPoint, engine: str) -> Iterator[str]:
    if plan.engine.lower() != engine:
        yield f"the figures: they are those of {plan.engine}; plan with that engine to have its own"
    if best.dtype not in ("bf16", "fp16", "fp8"):
        yield f"{best.dtype}: give a model whose weights have this format"
    if best.copies > 1:
        yield f"{best.copies} replicas: start as many, behind a load balancer"
    if best.batch < best.concurrency:
        yield f"{best.concurrency} concurrent requests: memory has room for {best.batch:.0f}, the others wait"
