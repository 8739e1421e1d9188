"""Help is instant and complete, and every flag is a decision."""

import inspect
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

import redline
from redline import __version__
from redline.cli.options import Options
from redline.cli.verb_table import VERBS, declared_options

HELP = [sys.executable, "-m", "redline", "--help"]
BARE = [sys.executable, "-c", "pass"]

# The help of each verb, so that an option is added or changed on purpose, never by accident.
FROZEN = Path(__file__).parent / "help"


@pytest.mark.parametrize("command", declared_options())
def test_the_options_of_a_verb_are_those_of_its_frozen_help(command: str, update_golden: bool) -> None:
    file = FROZEN / f"{command.replace(' ', '_')}.txt"
    text = run(*command.split(), "--help").stdout
    if update_golden:
        file.write_text(text)
    assert text == file.read_text()


def test_no_frozen_help_is_of_a_verb_that_is_gone() -> None:
    assert {path.stem.replace("_", " ") for path in FROZEN.iterdir()} == set(declared_options())


@pytest.mark.parametrize(("command", "options"), declared_options().items())
def test_the_example_of_a_verb_is_one(command: str, options: type[Options]) -> None:
    words = shlex.split(options.example)
    assert words[0] == "redline"
    assert options.parsed(words[1 + len(command.split()) :]).verb == command


PYTHON: dict[str, Callable[..., Any]] = {
    "calibrate": redline.calibrate,
    "compare": redline.compare,
    "diagnose": redline.diagnose,
    "digest": redline.digest,
    "memory": redline.memory,
    "merge": redline.merge,
    "plan serve": redline.plan_serving,
    "plan train": redline.plan_training,
}


@pytest.mark.parametrize("command", PYTHON)
def test_what_is_not_given_means_the_same_in_python(command: str) -> None:
    """A field that is called like a parameter has its default, or is as empty."""
    defaults = {each.name: each.default for each in fields(declared_options()[command])}  # type: ignore[arg-type]
    parameters = {
        name: parameter.default
        for name, parameter in inspect.signature(PYTHON[command]).parameters.items()
        if parameter.default is not parameter.empty and name in defaults
    }
    assert parameters
    for name, default in parameters.items():
        assert defaults[name] == default or not (defaults[name] or default) or defaults[name] is MISSING, name


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "redline", *arguments], capture_output=True, text=True, check=False, timeout=180
    )


def test_help_names_every_verb_and_every_exit_code() -> None:
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    words = " ".join(done.stdout.split())
    for name, summary in VERBS.items():
        assert f"{name} {summary}" in words
    for code in (0, 1, 2, 130):
        assert f"\n  {code} " in done.stdout


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"redline {__version__}\n", "")


@pytest.mark.parametrize("name", list(VERBS))
def test_help_of_a_verb_imports_nothing_heavy(name: str) -> None:
    program = (
        "import sys; from redline.cli import main; code = main([sys.argv[1], '--help']);"
        "print(code, {'numpy', 'msgspec', 'isal', 'zstandard', 'torch', 'rich'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, name], capture_output=True, text=True, check=True, timeout=180
    )
    assert done.stdout.startswith(f"usage: redline {name} ")
    assert done.stderr == "0 set()\n"


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import sys, redline; print({'numpy', 'argparse', 'redline.verbs', 'rich'} & set(sys.modules), dir(redline))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=180)
    assert done.stdout.startswith("set() ")
    assert "'inspect', 'memory', 'merge'" in done.stdout


def cpu_s(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=180)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_costs_at_most_four_bare_interpreters() -> None:
    rounds = [(cpu_s(BARE), cpu_s(HELP)) for _ in range(9)]
    bare_s, help_s = (min(costs) for costs in zip(*rounds, strict=True))
    assert help_s <= 4 * bare_s


@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "--help"]])
def test_a_reader_that_leaves_early_is_not_an_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run([*HELP[:3], *arguments], stdout=closed, stderr=subprocess.PIPE, check=False, timeout=180)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(HELP, stdout=full, stderr=subprocess.PIPE, check=False, timeout=180)
    assert (done.returncode, done.stderr) == (2, b"redline: cannot write to standard output: No space left on device\n")
