"""Scripts that know nothing of Redline run under it unmodified, and their steps are counted as a person would.

Among them are the examples, which do what their documentation says.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from redline.verbs.diagnose import diagnose
from tests.support.command_line import ROOT
from tests.support.running import NO_TIMED_WINDOW, PROGRAMS, REDLINE, finished, record

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

EXAMPLES = ROOT / "examples"
FRAMEWORKS = os.environ.get("REDLINE_FRAMEWORKS_PYTHON")
RAY = os.environ.get("REDLINE_RAY_PYTHON")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
STEPS = 16
EXAMPLES_OF_TORCH = [
    ("minimal.py", 1, "optimizer"),
    ("ddp_resnet.py", 2, "optimizer"),
    ("fsdp2.py", 2, "optimizer"),
    ("diffusion_transformer.py", 1, "optimizer"),
    ("generate.py", 1, "calls"),
]
SLOW_EXAMPLES = ("ddp_resnet.py", "diffusion_transformer.py", "generate.py")
EXAMPLE_OF_A_FRAMEWORK = "hf_finetune.py"
EXAMPLES_OF_PAGES = ("gpt2_flaws.py", "three_flaws.py")  # which the tests of the documentation run

needs_frameworks = pytest.mark.skipif(
    FRAMEWORKS is None, reason="REDLINE_FRAMEWORKS_PYTHON names no Python with what frameworks.txt lists"
)


def counted(folder: Path, *job: object, ranks: int = 1, python: str = sys.executable) -> list[str]:
    """Run a script under Redline; what ended its steps. The count must be what the script itself says at its end."""
    launch = ["--nproc-per-node", ranks, "--standalone", "--"] if ranks > 1 else ["--"]
    return counted_of(folder, *launch, *job, ranks=ranks, python=python)


def counted_of(
    folder: Path, *words: object, ranks: int, python: str = sys.executable, ends_orderly: bool = True
) -> list[str]:
    """The same, of a job that starts its ranks by itself."""
    words = (python, "-m", "redline", "run", *NO_TIMED_WINDOW, "-q", "-o", folder, *words)
    ran = finished(folder.parent, *words, environment=ENVIRONMENT)
    assert ran.process.returncode == 0, ran.output
    done = re.search(r"^done: (\d+) steps", ran.output, re.MULTILINE)
    assert done is not None, ran.output
    told = record(folder)["ranks"]
    assert [one["steps"] for one in told] == [int(done[1])] * ranks
    for one in told:
        assert one["finished"] == ends_orderly
        assert one["notes"] == []
        assert [(window["state"], window["steps"]) for window in one["windows"]] == [("written", 3)]
    found = diagnose(folder)
    assert [len(rank.ledger.start_ns) for rank in found.diagnosis.ranks] == [3] * ranks  # the steps are marked
    assert found.failures == ()
    return [one["step_kind"] for one in told]


@pytest.mark.parametrize(
    "name",
    [
        *("accumulation", "gan", "in_backward"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("critic", "compiled_step")),
    ],
)
def test_steps_of_a_training_are_steps_of_its_optimizers(tmp_path: Path, name: str) -> None:
    assert counted(tmp_path / "run", PROGRAMS / f"{name}.py") == ["optimizer"]


def test_steps_that_a_scaler_skips_are_steps(tmp_path: Path) -> None:
    assert counted(tmp_path / "run", PROGRAMS / "scaler.py", "--overflow", 7) == ["optimizer"]


def test_steps_of_a_job_without_an_optimizer_are_calls_of_its_model(tmp_path: Path) -> None:
    assert counted(tmp_path / "run", PROGRAMS / "inference.py") == ["calls"]


@pytest.mark.parametrize(
    ("name", "ranks", "kind"),
    [
        pytest.param(*example, marks=pytest.mark.slow if example[0] in SLOW_EXAMPLES else ())
        for example in EXAMPLES_OF_TORCH
    ],
)
def test_the_examples_run_unmodified(tmp_path: Path, name: str, ranks: int, kind: str) -> None:
    assert counted(tmp_path / "run", EXAMPLES / name, "--steps", STEPS, ranks=ranks) == [kind] * ranks
    check_nothing_is_left(tmp_path)


@needs_frameworks
@pytest.mark.slow  # CI has programs/hf_trainer.py, which is smaller and evaluates between its steps
def test_the_example_of_a_framework_runs_unmodified(tmp_path: Path) -> None:
    assert FRAMEWORKS is not None
    job = (EXAMPLES / EXAMPLE_OF_A_FRAMEWORK, "--steps", STEPS, "--gradient-accumulation", 2)
    assert counted(tmp_path / "run", *job, python=FRAMEWORKS) == ["optimizer"]
    check_nothing_is_left(tmp_path)


def check_nothing_is_left(folder: Path) -> None:
    """Of the job's, beside what Redline and the test leave."""
    assert [path.name for path in folder.iterdir() if not re.fullmatch(r"run|output-\d+\.txt", path.name)] == []


def test_every_example_is_listed_and_tested() -> None:
    names = sorted(path.name for path in EXAMPLES.glob("*.py"))
    others = (EXAMPLE_OF_A_FRAMEWORK, *EXAMPLES_OF_PAGES)
    assert names == sorted([*others, *(name for name, _, _ in EXAMPLES_OF_TORCH)])
    assert sorted(re.findall(r"^\| \[(.+?)\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE)) == names


def test_the_example_of_sharding_says_that_it_needs_torchrun(tmp_path: Path) -> None:
    ran = finished(tmp_path, sys.executable, EXAMPLES / "fsdp2.py")
    assert ran.process.returncode == 1
    assert ran.output == "start this with torchrun: torchrun --nproc-per-node 2 examples/fsdp2.py\n"


@needs_frameworks
@pytest.mark.parametrize(
    ("name", "kind"),
    [("hf_trainer", "optimizer"), ("hf_generate", "calls"), ("diffusers_pipeline", "calls"),
     *(pytest.param(name, "optimizer", marks=pytest.mark.slow) for name in ("accelerate_loop", "lightning_fit"))],
)  # fmt: skip
def test_scripts_of_frameworks_run_unmodified(tmp_path: Path, name: str, kind: str) -> None:
    assert FRAMEWORKS is not None
    assert counted(tmp_path / "run", PROGRAMS / f"{name}.py", python=FRAMEWORKS) == [kind]


@needs_frameworks
@pytest.mark.slow  # CI has programs/hf_generate.py with its own cache
@pytest.mark.parametrize("cache", ["static", "compiled"])
def test_a_token_is_a_step_whatever_the_cache(tmp_path: Path, cache: str) -> None:
    assert FRAMEWORKS is not None
    script = PROGRAMS / "hf_generate.py"
    assert counted(tmp_path / "run", script, "--cache", cache, python=FRAMEWORKS) == ["calls"]


@needs_frameworks
@pytest.mark.slow
def test_a_framework_started_by_torchrun(tmp_path: Path) -> None:
    assert FRAMEWORKS is not None
    script = PROGRAMS / "accelerate_loop.py"
    assert counted(tmp_path / "run", script, ranks=2, python=FRAMEWORKS) == ["optimizer"] * 2


@needs_frameworks
@pytest.mark.parametrize(
    ("ranks", "job"),
    [
        pytest.param(2, (PROGRAMS / "lightning_fit.py", "--devices", "2"), marks=pytest.mark.slow),
        (1, ("accelerate", "launch", "--cpu", "--num_machines", "1", "--num_processes", "1",
             "--mixed_precision", "no", "--dynamo_backend", "no", PROGRAMS / "accelerate_loop.py")),
    ],
    ids=["lightning", "accelerate"],
)  # fmt: skip
def test_ranks_that_a_framework_starts_by_itself(tmp_path: Path, ranks: int, job: tuple[object, ...]) -> None:
    assert FRAMEWORKS is not None
    assert counted_of(tmp_path / "run", "--", *job, ranks=ranks, python=FRAMEWORKS) == ["optimizer"] * ranks


@pytest.mark.skipif(RAY is None, reason="REDLINE_RAY_PYTHON names no Python with ray[train], which is large")
def test_workers_of_ray_train(tmp_path: Path) -> None:
    """Ray ends its workers by force."""
    assert RAY is not None
    job = ("--", PROGRAMS / "ray_train.py")
    assert counted_of(tmp_path / "run", *job, ranks=2, python=RAY, ends_orderly=False) == ["optimizer"] * 2


def test_ranks_that_a_script_starts_by_itself(tmp_path: Path) -> None:
    assert counted_of(tmp_path / "run", "--", PROGRAMS / "spawned.py", ranks=2) == ["optimizer"] * 2


def test_a_spawned_rank_that_fails(tmp_path: Path) -> None:
    """The job ends with its own error, and what the ranks did until then is known."""
    job = (PROGRAMS / "spawned.py", "--fail", "--steps", "24")
    watched = finished(tmp_path, *REDLINE, "-q", "-o", tmp_path / "run", "--", *job, environment=ENVIRONMENT)
    assert watched.process.returncode == 1
    assert watched.output.rstrip().endswith("ValueError: no more data")
    assert [one["steps"] for one in record(tmp_path / "run")["ranks"]] == [12, 12]
    assert [one["windows"][0]["state"] for one in record(tmp_path / "run")["ranks"]] == ["written"] * 2


@pytest.mark.parametrize("name", ["compiled", pytest.param("compiled_step", marks=pytest.mark.slow)])
def test_compiled_code_is_compiled_as_without_us(tmp_path: Path, name: str) -> None:
    """No warning, no further break of a graph, no compilation more: the compiler's own counters stay the same.

    Its steps are steps of the optimizer.
    """
    script = tmp_path / "counted.py"
    script.write_text(
        f"import atexit, runpy\n"
        f"from torch._dynamo.utils import counters\n"
        f"atexit.register(lambda: print([dict(counters[name]) for name in ('stats', 'graph_break')]))\n"
        f"runpy.run_path({str(PROGRAMS / f'{name}.py')!r}, run_name='__main__')\n"
    )
    commands = [[sys.executable], [*REDLINE, "-q", "-o", str(tmp_path / "run"), "--"]]
    outputs = [
        subprocess.run(
            [*command, str(script)],
            capture_output=True, text=True, timeout=300, check=True, env={**os.environ, **ENVIRONMENT},
        )
        for command in commands
    ]  # fmt: skip
    bare, watched = (one.stdout for one in outputs)
    assert watched == bare
    warned = [re.sub(r"^W\S+ \S+ \d+ ", "", one.stderr, flags=re.MULTILINE) for one in outputs]
    assert warned[1] == warned[0]
    (rank,) = record(tmp_path / "run")["ranks"]
    assert (rank["steps"], rank["step_kind"], rank["notes"]) == (40, "optimizer", [])
    assert [(window["state"], window["steps"]) for window in rank["windows"]] == [("written", 3)]
    assert [len(one.ledger.start_ns) for one in diagnose(tmp_path / "run").diagnosis.ranks] == [3]
