"""Counts are exact: equal to what transformers builds, and to what torch counts while it runs, for every family."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redline.model.flops import Pairs, backward_flops, forward_flops
from redline.model.huggingface import FAMILIES, SAME_SHAPE, known_config, known_models, read_config
from redline.model.model import Model
from redline.model.parameters import count_parameters
from tests.support.small_configs import SMALL

FRAMEWORKS = os.environ.get("REDLINE_FRAMEWORKS_PYTHON")
PROGRAM = Path(__file__).parents[2] / "support" / "real_models.py"
KNOWN = {name: known_config(name) for name in known_models() if name not in SAME_SHAPE}
BUILT = {name: values for name, values in KNOWN.items() if "model_type" in values}
RUN = {name: values for name, values in SMALL.items() if name != "nemotron_h"}
"""Not what has a recurrence: how much work that is depends on how it is done."""
SEQUENCES, SEQUENCE = 2, 16

needs_transformers = pytest.mark.skipif(
    FRAMEWORKS is None, reason="REDLINE_FRAMEWORKS_PYTHON names no Python with transformers"
)


def counted(build: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    assert FRAMEWORKS is not None
    asked = {"build": build, "run": run, "sequences": SEQUENCES, "sequence": SEQUENCE}
    done = subprocess.run([FRAMEWORKS, PROGRAM], input=json.dumps(asked), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    return counted(SMALL, RUN)


@needs_transformers
@pytest.mark.parametrize("name", SMALL)
def test_parameters_equal_those_of_the_real_module(name: str, real: dict[str, Any]) -> None:
    assert count_parameters(read_config(SMALL[name])).total == real["parameters"][name]


@pytest.mark.slow
@needs_transformers
def test_parameters_of_known_models_equal_those_of_the_real_modules() -> None:
    real = counted(BUILT, {})["parameters"]
    assert {name: count_parameters(read_config(values)).total for name, values in BUILT.items()} == real


@needs_transformers
@pytest.mark.parametrize("name", RUN)
def test_flops_equal_what_torch_counts(name: str, real: dict[str, Any]) -> None:
    model = as_transformers_runs_it(read_config(SMALL[name]), name)
    tokens = SEQUENCES * SEQUENCE
    assert forward_flops(model, tokens, SEQUENCE, Pairs.ALL).total == real["flops"][name]["forward"]
    assert backward_flops(model, tokens, SEQUENCE, Pairs.ALL, flash=0).total == real["flops"][name]["backward"]


def as_transformers_runs_it(model: Model, name: str) -> Model:
    """Its Llama 4 sends every token through every expert and discards what was not chosen."""
    return replace(model, experts_per_token=model.experts) if name == "llama4_text" else model


def test_every_family_is_held_against_a_real_module() -> None:
    assert {values["model_type"] for values in SMALL.values()} == set(FAMILIES)


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("gpt2-large", 774_030_080),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-405b", 405_853_388_800),
        ("mixtral-8x7b", 46_702_792_704),
        ("deepseek-v3", 671_026_404_352),
        ("gpt-oss-120b", 116_829_156_672),
        ("sd3-medium", 2_028_328_000),
        ("wan2.1-1.3b", 1_418_996_800),
        ("wan2.1-14b", 14_288_491_584),
    ],
)
def test_totals_are_those_of_the_published_weights(name: str, total: int) -> None:
    assert count_parameters(read_config(KNOWN[name])).total == total
