"""Launch scripts of plans are taken by the frameworks' own parsers, and train where there is no GPU.

`tests/e2e/launchers.txt` says how to build the environment that REDLINE_LAUNCHERS_PYTHON names.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from redline.cli import main
from tests.support.running import PROGRAMS, SECONDS

LAUNCHERS = os.environ.get("REDLINE_LAUNCHERS_PYTHON")
pytestmark = pytest.mark.skipif(
    LAUNCHERS is None, reason="REDLINE_LAUNCHERS_PYTHON names no Python with what launchers.txt lists"
)
TOY = "--layers 2 --hidden 64 --heads 4 --ffn 128 --vocab 512 --gpus 2 --batch 8 --sequence 64 --micro-batch 2"
LARGE = "--model llama-3.1-8b --gpus 64 --sequence 8192 --batch 512"
EXPERTS = "--model deepseek-v3 --gpus 2048 --sequence 4096 --batch 4096 --ep 64 --pp 16 --accept-chance 1"


def script(folder: Path, capsys: pytest.CaptureFixture[str], framework: str, words: str) -> str:
    """What a user gets, and a file of it."""
    given = ["plan", "train", "--machine", "H100-SXM5-80GB", "-q", "--emit", framework, *words.split()]
    assert main(given) == 0
    text = capsys.readouterr().out
    (folder / "launch.sh").write_text(text)
    return text


def config_of(text: str) -> str:
    found = re.search(r"^cat >\S+ <<'END'\n(.*?)\nEND$", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def in_framework(folder: Path, program: str, *arguments: str) -> str:
    """What a few lines of Python print where the frameworks are installed; skipped where one of them is not."""
    assert LAUNCHERS is not None
    ran = subprocess.run(
        [LAUNCHERS, "-W", "ignore", "-c", program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    missing = re.search(r"No module named '(\w+)", ran.stderr)
    if missing is not None:
        pytest.skip(f"{missing[1]} is not installed beside REDLINE_LAUNCHERS_PYTHON")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip().splitlines()[-1]


def launched(folder: Path, program: str) -> str:
    """The output of the script as it is, with a train.py beside it."""
    assert LAUNCHERS is not None
    shutil.copy(PROGRAMS / program, folder / "train.py")
    # The environment may see packages of another one, whose commands start that one's Python.
    commands = folder / "commands"
    commands.mkdir()
    for name, module in (("torchrun", "torch.distributed.run"), ("accelerate", "accelerate.commands.accelerate_cli")):
        (commands / name).write_text(f'#!/bin/sh\nexec {LAUNCHERS} -m {module} "$@"\n')
        (commands / name).chmod(0o755)
    path = f"{commands}{os.pathsep}{Path(LAUNCHERS).parent}{os.pathsep}{os.environ['PATH']}"
    quiet = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PATH": path}
    ran = subprocess.run(
        ["sh", "launch.sh"],
        cwd=folder,
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.slow  # DeepSpeed compiles its own operators for minutes; CI has it read its config
@pytest.mark.parametrize("stage", [0, 2, 3])
def test_deepspeed_trains_two_steps_by_its_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: int
) -> None:
    script(tmp_path, capsys, "deepspeed", f"{TOY} --tp 1 --pp 1 --cp 1 --zero {stage}")
    assert launched(tmp_path, "deepspeed_loop.py").count(f"steps=2 batch=8 zero={stage}") == 2


def test_accelerate_trains_two_steps_by_its_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(tmp_path, capsys, "accelerate", f"{TOY} --tp 1 --pp 1 --cp 1 --zero 0")
    assert launched(tmp_path, "accelerate_launched.py").count("steps=2 processes=2 accumulated=2") == 2


def test_accelerate_reads_its_configs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layouts = ["--zero 3 --tp 8", "--zero 2 --tp 1", "--zero 1 --tp 1", "--zero 0 --tp 1"]
    for at, layout in enumerate(layouts):
        words = f"{LARGE} --pp 1 --cp 1 --accept-chance 1 {layout}"
        (tmp_path / f"{at}.yaml").write_text(config_of(script(tmp_path, capsys, "accelerate", words)))
    program = (
        "from accelerate.commands.config import load_config_from_file as load\n"
        "configs = [load(name + '.yaml') for name in '0123']\n"
        "assert all((read.num_processes, read.num_machines) == (64, 8) for read in configs)\n"
        "print(*(read.distributed_type.value for read in configs))"
    )
    assert in_framework(tmp_path, program) == "FSDP FSDP DEEPSPEED MULTI_GPU"


def test_deepspeed_reads_its_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one data-parallel rank, as without ranks DeepSpeed checks the batch against one."""
    words = f"{TOY} --tp 2 --pp 1 --cp 1 --dp 1 --zero 0"
    (tmp_path / "config.json").write_text(config_of(script(tmp_path, capsys, "deepspeed", words)))
    program = (
        "from deepspeed.runtime.config import DeepSpeedConfig\n"
        "config = DeepSpeedConfig('config.json')\n"
        "zero = config.zero_config\n"
        "print(config.train_batch_size, zero.stage, config.tensor_parallel_config.autotp_size)"
    )
    assert in_framework(tmp_path, program) == "8 0 2"


@pytest.mark.parametrize(
    "words",
    [pytest.param(f"{LARGE} --tp 4 --pp 2 --cp 2 --zero 1 --recompute selective", marks=pytest.mark.slow), EXPERTS],
)
def test_megatron_core_takes_the_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    """Megatron-LM's parser is not in the package; its options are the fields of these classes, which check them."""
    script(tmp_path, capsys, "megatron", f"{words} --schedule 1f1b --chunks 1")
    text = (tmp_path / "launch.sh").read_text()
    command = text[text.index("pretrain_gpt.py") :].replace("\\\n", " ").replace("'", "").split()[1:]
    options: dict[str, object] = {}
    for word in command:
        if word.startswith("--"):
            options[word[2:].replace("-", "_")] = True
        else:
            options[list(options)[-1]] = int(word) if word.isdigit() else word
    assert in_framework(tmp_path, MEGATRON, json.dumps(options)).startswith("accepted")


MEGATRON = """
import dataclasses, json, sys
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig
from megatron.core.transformer import MLATransformerConfig, TransformerConfig
given = json.loads(sys.argv[1])
# What Megatron-LM's parser renames on the way to the fields.
fields = {"swiglu": "gated_linear_unit", "num_experts": "num_moe_experts", "disable_bias_linear": "add_bias_linear"}
kind = MLATransformerConfig if given.get("multi_latent_attention") else TransformerConfig
values = {fields.get(name, name): value for name, value in given.items()}
values["add_bias_linear"] = False
values["moe_layer_freq"] = eval(str(values.get("moe_layer_freq", "1")))
values["recompute_modules"] = [values["recompute_modules"]] if "recompute_modules" in values else None
values["pipeline_dtype"] = __import__("torch").bfloat16
known = {field.name for field in dataclasses.fields(kind)}
spread = {field.name for c in (DistributedDataParallelConfig, OptimizerConfig) for field in dataclasses.fields(c)}
parser_alone = {
    "group_query_attention", "position_embedding_type", "untie_embeddings_and_output_weights", "seq_length",
    "max_position_embeddings", "micro_batch_size", "global_batch_size", "mock_data", "tokenizer_type", "vocab_size",
    "train_iters", "attention_backend",
}
unknown = set(values) - known - spread - parser_alone
assert not unknown, unknown
chosen = {name: value for name, value in values.items() if name in known and name != "attention_backend"}
config = kind(**{name: value for name, value in chosen.items() if value is not None})
if "pipeline_model_parallel_layout" in chosen:
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
    PipelineParallelLayerLayout.from_str(
        chosen["pipeline_model_parallel_layout"], chosen["pipeline_model_parallel_size"]
    )
print("accepted", config.num_layers)
"""


@pytest.mark.slow
def test_torchtitan_reads_its_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"{LARGE} --tp 4 --pp 2 --cp 1 --zero 3 --schedule 1f1b --chunks 2 --recompute full --accept-chance 1"
    (tmp_path / "planned.py").write_text(config_of(script(tmp_path, capsys, "torchtitan", words)))
    program = (
        "import sys\n"
        "sys.path.insert(0, '.')\n"
        "from torchtitan.config import ConfigManager\n"
        "read = ConfigManager().parse_args(['--module', 'planned', '--config', 'planned'])\n"
        "print(read.parallelism.pipeline_parallel_schedule, read.parallelism.tensor_parallel_degree)"
    )
    assert in_framework(tmp_path, program) == "Interleaved1F1B 4"


def test_nanotron_has_every_field_of_its_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its package on PyPI, 0.4, cannot be imported, as its modules import each other; so its classes are read."""
    text = config_of(script(tmp_path, capsys, "nanotron", f"{LARGE} --tp 4 --pp 2 --cp 1 --zero 1 --chunks 1"))
    (tmp_path / "nanotron.yaml").write_text(text)
    assert in_framework(tmp_path, NANOTRON) == "accepted 11"


NANOTRON = """
import ast, importlib.util, pathlib, yaml
folder = pathlib.Path(importlib.util.find_spec("nanotron").origin).parent / "config"
classes = {}
for path in folder.glob("*.py"):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
            classes[node.name] = {item.target.id: item.value is None for item in fields}
read = yaml.safe_load(open("nanotron.yaml"))
parts = {
    "Config": read, "GeneralArgs": read["general"], "ParallelismArgs": read["parallelism"], "ModelArgs": read["model"],
    "RandomInit": read["model"]["init_method"], "LlamaConfig": read["model"]["model_config"],
    "TokenizerArgs": read["tokenizer"], "TokensArgs": read["tokens"], "OptimizerArgs": read["optimizer"],
    "LRSchedulerArgs": read["optimizer"]["learning_rate_scheduler"], "DataArgs": read["data"],
}
for name, values in parts.items():
    required = {field for field, is_required in classes[name].items() if is_required}
    assert required <= set(values) <= set(classes[name]), (name, required, set(values) - set(classes[name]))
print("accepted", len(parts))
"""
