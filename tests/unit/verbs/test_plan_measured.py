"""`plan_serving(measured=...)`: a watched engine's own step gives that step back, and larger models scale from it."""

from pathlib import Path
from typing import Any

import pytest

import redline
from redline.cli import main
from redline.errors import InputError
from tests.support.made_engine import MadeEngine

CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
TRAFFIC: dict[str, Any] = {"machine": "H100-SXM5-80GB", "prompt": 64, "output_tokens": 64, "tp": [1]}


def _run(folder: Path, token_ns: int = 40_000_000, **facts: object) -> Path:
    engine = MadeEngine(seed=3, sequences=4, tokens=256, cache=100_000, token_ns=token_ns)
    engine.run(60)
    engine.engine.append(["facts", {"model_config": CONFIG, **facts}])
    return engine.write(folder)


def test_the_measured_step_is_given_back(tmp_path: Path) -> None:
    plan = redline.plan_serving("llama-3.1-8b", **TRAFFIC, measured=_run(tmp_path), concurrency=[4]).plan
    assert plan.measured is not None
    step = plan.measured.step
    assert step.batch == 4
    assert 0 < plan.measured.roof_s < step.model_s
    assert sum(plan.points[0].step_s) == pytest.approx(step.model_s + step.around_s, rel=0.05)
    assert plan.points[0].tpot_s.low is None  # nobody has measured how far such predictions are off


def test_what_is_beyond_the_peaks_grows_with_layers(tmp_path: Path) -> None:
    run = _run(tmp_path)
    steps = [
        sum(redline.plan_serving(name, **TRAFFIC, measured=run, concurrency=[4]).plan.points[0].step_s)
        for name in ("llama-3.1-8b", "llama-3.2-1b")
    ]
    assert steps[1] / steps[0] == pytest.approx(16 / 32, rel=0.1)


def test_a_machine_that_beats_its_peaks_is_as_fast_as_it_was(tmp_path: Path) -> None:
    plan = redline.plan_serving("llama-3.1-8b", **TRAFFIC, measured=_run(tmp_path, 1_000), concurrency=[4]).plan
    assert plan.measured is not None
    assert plan.measured.roof_s > plan.measured.step.model_s
    assert sum(plan.points[0].step_s) == pytest.approx(
        plan.measured.step.model_s + plan.measured.step.around_s, rel=0.05
    )


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"tensor_parallel_size": 2}, "spread over several devices"),
        ({"model_config": None}, "does not say which model was served"),
    ],
)
def test_runs_that_tell_too_little_are_refused(facts: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        redline.plan_serving("llama-3.1-8b", **TRAFFIC, measured=_run(tmp_path, **facts))


def test_a_run_that_only_reads_prompts_is_refused(tmp_path: Path) -> None:
    engine = MadeEngine(seed=3)
    engine.run(1)
    engine.engine = [record for record in engine.engine if record[0] != "step"][:2] + [
        record for record in engine.engine if record[0] == "step"
    ][:1]
    with pytest.raises(InputError, match="no step of its engine only generates"):
        redline.plan_serving("llama-3.1-8b", **TRAFFIC, measured=engine.write(tmp_path))


def test_the_command_line_says_what_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--machine", "H100-SXM5-80GB", "--prompt", "64", "--output-tokens", "64", "--tp", "1"]
    assert main(["plan", "serve", "--model", "llama-3.1-8b", *words, "--measured", str(_run(tmp_path))]) == 0
    told = capsys.readouterr().out
    assert "served by vllm" in told
    assert "measured steps of 4 sequences" in " ".join(told.split())
