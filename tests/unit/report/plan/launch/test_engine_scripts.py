"""Commands of serving engines say the best way to serve, and name what they cannot say."""

import subprocess
from pathlib import Path

import pytest

import redline
from redline.errors import ParameterError, UsageError
from redline.plan.serve.serving_defaults import ENGINES
from redline.verbs.plan_results import PlannedServing


def planned(model: str = "llama-3.1-70b", **more: object) -> PlannedServing:
    given: dict[str, object] = {"machine": "H200-SXM", "prompt": 1024, "output_tokens": 256, "precision": ("fp8",)}
    return redline.plan_serving(model, **(given | more))  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_command_is_valid_shell_with_the_best_size_and_load(engine: str, tmp_path: Path) -> None:
    plan = planned(tp=(4,), concurrency=(16,), cache="fp8")
    script = plan.launch_script(engine)
    (tmp_path / "serve.sh").write_text(script)
    subprocess.run(["sh", "-n", tmp_path / "serve.sh"], check=True)
    size, most = {"vllm": ("--tensor-parallel-size 4", "--max-num-seqs 16")}.get(
        engine, ("--tp-size 4", "--max-running-requests 16")
    )
    words = script.replace("\\\n", "")
    assert size in words
    assert most in words
    assert "--quantization fp8" in words
    assert "--kv-cache-dtype fp8" in words
    assert " 1280" in words  # prompt and output together


def test_attention_of_its_own_on_each_device_is_said_in_the_words_of_the_engine() -> None:
    plan = planned("deepseek-v3", tp=(8,), concurrency=(512,), engine="SGLang")
    assert plan.plan.best is not None
    assert plan.plan.best.attention_dp == 8
    assert "--enable-dp-attention --dp-size 8" in plan.launch_script("sglang").replace("\\\n", "")
    assert "--data-parallel-size 8 --enable-expert-parallel" in plan.launch_script("vllm").replace("\\\n", "")


def test_what_the_command_cannot_say_is_said() -> None:
    script = planned(tp=(4,), gpus=16, engine="SGLang").launch_script("vllm")
    assert "# Not expressed: the figures: they are those of SGLang; plan with that engine to have its own" in script
    assert "# Not expressed: 4 replicas: start as many, behind a load balancer" in script


def test_an_engine_that_is_not_known_is_refused() -> None:
    with pytest.raises(ParameterError, match="there is no such engine; there are: vllm, sglang"):
        planned().launch_script("tgi")


def test_nothing_is_emitted_where_nothing_meets_the_limits() -> None:
    with pytest.raises(UsageError, match="no configuration fits and meets the limits, so there is nothing to emit"):
        planned(max_tpot_s=1e-6).launch_script("vllm")
