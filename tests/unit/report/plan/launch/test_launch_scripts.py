"""Launch scripts say the layout in the words of each framework, and name what they cannot say."""

import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.errors import ParameterError
from redline.plan.train.training_choices import FRAMEWORKS
from redline.report.plan.launch.script import Cluster, cluster_of
from redline.verbs.plan_results import PlannedTraining

DECODER = {"layers": 61, "hidden": 512, "heads": 8, "kv_heads": 2, "ffn": 1408, "vocab": 32000}
EXPERTS = {"experts": 16, "experts_per_token": 2, "expert_ffn": 256, "dense_layers": 3, "shared_ffn": 256}


def planned(*, numbers: Mapping[str, float] = DECODER, **layout: float | str) -> PlannedTraining:
    fixed: dict[str, float | str] = {"tp": 1, "pp": 1, "cp": 1, "micro_batch": 1, "recompute": "none"}
    return redline.plan_training(
        None,
        numbers=numbers,
        machine="H100-SXM5-80GB",
        gpus=32,
        batch=256,
        sequence=4096,
        layout=fixed | layout,
        top=1,
    )


def written(script: str, name: str) -> str:
    found = re.search(rf"^cat >{re.escape(name)} <<'END'\n(.*?)\nEND$", script, re.DOTALL | re.MULTILINE)
    assert found is not None, script
    return found[1]


def arguments(script: str) -> dict[str, list[str]]:
    """Options of the command that the script ends with, and their values."""
    words = shlex.split(script[script.index("\ntorchrun") :].replace("\\\n", " "))
    options: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            options[name] = [value] if value else []
        elif options:
            options[list(options)[-1]].append(word)
    return options


def config(script: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(written(script, "ds_config.json"))
    return values


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_script_is_valid_shell_and_names_what_it_is_for(framework: str, tmp_path: Path) -> None:
    script = planned(zero=1).launch_script(framework)
    (tmp_path / "launch.sh").write_text(script)
    subprocess.run(["sh", "-n", tmp_path / "launch.sh"], check=True)
    assert "a model on 32 H100-SXM5-80GB in bf16, 256 sequences of 4,096 per step" in script
    assert "dp 32, ZeRO-1, 8 micro-batches of 1" in script
    assert max(map(len, script.splitlines())) <= 160


def test_megatron_divides_the_job_as_the_plan_does() -> None:
    script = planned(tp=4, pp=4, cp=2, zero=1, schedule="1f1b", chunks=1, recompute="full").launch_script("megatron")
    options = arguments(script)
    assert options["--tensor-model-parallel-size"] == ["4"]
    assert options["--pipeline-model-parallel-size"] == ["4"]
    assert options["--context-parallel-size"] == ["2"]
    assert options["--num-query-groups"] == ["2"]
    assert options["--recompute-granularity"] == ["full"]
    assert (options["--nnodes"], options["--nproc-per-node"]) == (["4"], ["8"])
    assert {"--sequence-parallel", "--use-distributed-optimizer"} <= set(options)
    assert "Not expressed" not in script


def test_megatron_is_told_which_stage_has_how_many_of_61_layers() -> None:
    options = arguments(planned(tp=1, pp=4, zero=1, schedule="1f1b", chunks=1).launch_script("megatron"))
    stages = options["--pipeline-model-parallel-layout"][0].split("|")
    assert [stage.count("t") for stage in stages] == [16, 15, 15, 15]
    assert (stages[0][0], stages[-1][-1]) == ("E", "L")


def test_megatron_interleaves_by_chunks_where_layers_divide() -> None:
    even = {**DECODER, "layers": 64}
    options = arguments(planned(numbers=even, pp=4, schedule="1f1b", chunks=4, zero=1).launch_script("megatron"))
    assert options["--num-virtual-stages-per-pipeline-rank"] == ["4"]
    assert "--pipeline-model-parallel-layout" not in options


def test_megatron_knows_experts_and_says_which_layers_are_dense() -> None:
    script = planned(numbers=DECODER | EXPERTS, ep=8, zero=1).launch_script("megatron")
    options = arguments(script)
    assert (options["--num-experts"], options["--expert-model-parallel-size"]) == (["16"], ["8"])
    assert options["--moe-layer-freq"] == ["([0]*3+[1]*58)"]


def test_megatron_has_no_zero_bubble() -> None:
    script = planned(pp=4, schedule="zero-bubble", zero=1).launch_script("megatron")
    assert "# Not expressed: the pipeline schedule: Megatron-LM runs 1F1B, interleaved or not" in script


def test_deepspeed_gets_the_batch_that_its_ranks_make() -> None:
    values = config(planned(zero=3, offload=1).launch_script("deepspeed"))
    assert values["zero_optimization"]["stage"] == 3
    assert values["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert values["train_batch_size"] == 256
    assert values["train_micro_batch_size_per_gpu"] * values["gradient_accumulation_steps"] * 32 == 256


@pytest.mark.parametrize(
    ("framework", "name", "said"),
    [
        ("deepspeed", "pp", "the best layout has pp 2, and DeepSpeed makes a pipeline in code"),
        ("accelerate", "pp", "the best layout has pp 2, and Accelerate has pipelines for inference alone"),
        ("nanotron", "cp", "the best layout has cp 2, and nanotron's config has no context parallelism"),
        ("accelerate", "ep", "the best layout has ep 2, and Accelerate has no expert parallelism"),
    ],
)
def test_a_layout_that_a_framework_cannot_run_is_refused(framework: str, name: str, said: str) -> None:
    fixed: dict[str, float | str] = {"zero": 1, name: 2}
    plan = planned(numbers=DECODER | EXPERTS if name == "ep" else DECODER, **fixed)
    with pytest.raises(ParameterError, match=f"{re.escape(said)}.*fix {name} at 1"):
        plan.launch_script(framework)


def test_an_unknown_framework_is_refused() -> None:
    with pytest.raises(ParameterError, match="there is no such framework; there are: megatron, torchtitan"):
        planned(zero=1).launch_script("horovod")


@pytest.mark.parametrize(("gpus", "nodes", "each"), [(8, 1, 8), (12, 2, 6), (7, 1, 7), (9, 3, 3)])
def test_no_node_gets_more_processes_than_it_has_devices(gpus: int, nodes: int, each: int) -> None:
    plan = replace(planned(zero=3).plan, devices=gpus)
    assert cluster_of(plan) == Cluster(nodes=nodes, processes=each)


def test_torchtitan_is_told_that_its_stand_in_is_none() -> None:
    script = planned(zero=3).launch_script("torchtitan")
    assert "put yours in place of llama3_debugmodel" in script
    known = redline.plan_training(
        "llama-3-8b", machine="H100-SXM5-80GB", gpus=8, batch=8, sequence=8192, layout={"zero": 3, "tp": 1}, top=1
    ).launch_script("torchtitan")
    assert "from torchtitan.models.llama3.config_registry import llama3_8b\n" in known


def test_accelerate_replicates_where_shards_are_fewer_than_devices() -> None:
    text = written(planned(zero=3, shard=8).launch_script("accelerate"), "accelerate.yaml")
    assert "parallelism_config_dp_replicate_size: 4" in text
    assert "parallelism_config_dp_shard_size: 8" in text


def test_a_module_of_ones_own_has_no_megatron(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "own.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Linear(64, 64), torch.ones(1, 64)\n"
    )
    plan = redline.plan_training(f"{tmp_path}/own.py:make", machine="H100-SXM5-80GB", gpus=8, batch=64, top=1)
    with pytest.raises(ParameterError, match="builds decoders of its own; this plan is of a module of yours"):
        plan.launch_script("megatron")
    assert "deepspeed.initialize" in plan.launch_script("deepspeed")
