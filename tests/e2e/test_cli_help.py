"""Help is instant and complete, and every flag is a decision."""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from redline import __version__
from redline.cli import VERBS, parsers

HELP = [sys.executable, "-m", "redline", "--help"]
BARE = [sys.executable, "-c", "pass"]

# A new flag is added here on purpose, never by accident.
FLAGS = {
    "calibrate": [
        "--budget SECONDS",
        "--compare PROFILE",
        "--fail-if-slow",
        "--force",
        "--json",
        "--lang LANG",
        "--only FAMILIES",
        "--quick",
        "--show",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
    ],
    "compare": [
        "--a CMD",
        "--against NAME",
        "--allow-writes",
        "--b CMD",
        "--baselines FOLDER",
        "--claims CLASS",
        "--fail-on LIMIT",
        "--force",
        "--format FORMAT",
        "--jobs N",
        "--json",
        "--lang LANG",
        "--machine NAME|FILE",
        "--max-time MINUTES",
        "--no-cache",
        "--numbers",
        "--numbers-only",
        "--pairs N",
        "--redact",
        "--save-as NAME",
        "--seed N",
        "--steps N",
        "--strict",
        "--with LEVER",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
        "-v --verbose",
        "RECORDING",
    ],
    "memory": [
        "--device-memory SIZE",
        "--force",
        "--format FORMAT",
        "--json",
        "--lang LANG",
        "--plan FILE",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
        "-v --verbose",
        "PATH",
    ],
    "tune": [
        "--allow CHANGE",
        "--allow-writes",
        "--budget MINUTES",
        "--force",
        "--format FORMAT",
        "--hangs-after SECONDS",
        "--json",
        "--lang LANG",
        "--memory-limit SIZE",
        "--minimize WHAT",
        "--record FOLDER",
        "--steps N",
        "--try LEVER",
        "--without LEVER",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
        "-v --verbose",
        "-y --yes",
    ],
    "diagnose": [
        "--address ADDRESS",
        "--client FILE",
        "--collectives",
        "--executor NAME",
        "--fail-on LIMIT",
        "--findings",
        "--force",
        "--forecast",
        "--format FORMAT",
        "--host",
        "--jobs N",
        "--json",
        "--kernels",
        "--lang LANG",
        "--machine NAME|FILE",
        "--model NAME|FILE",
        "--no-cache",
        "--phases",
        "--ranks",
        "--redact",
        "--save-altered FOLDER",
        "--step-regex RE",
        "--steps",
        "--strict",
        "--what-if SCENARIO",
        "--with-trace",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
        "-v --verbose",
        "PATH",
    ],
    "digest": [
        "--address ADDRESS",
        "--executor NAME",
        "--force",
        "--jobs N",
        "--machine NAME|FILE",
        "--no-cache",
        "--redact",
        "--shard I/N",
        "--step-regex RE",
        "--strict",
        "-h --help",
        "-o --output FOLDER",
        "-q --quiet",
        "-v --verbose",
        "PATH",
    ],
    "watch": [
        "--export TO",
        "--grace SECONDS",
        "--json",
        "--lang LANG",
        "--once",
        "--poll SECONDS",
        "-h --help",
        "-q --quiet",
        "FOLDER",
    ],
    "explain": [
        "--lang LANG",
        "-h --help",
        "CODE|LEVER|WORD",
    ],
    "hardware": [
        "--force",
        "--json",
        "-h --help",
        "-o --output FILE",
        "NAME",
    ],
    "mcp": [
        "--allow FOLDER",
        "-h --help",
    ],
    "inspect": [
        "--address ADDRESS",
        "--executor NAME",
        "--force",
        "--jobs N",
        "--json",
        "--no-cache",
        "--step-regex RE",
        "--strict",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
        "-v --verbose",
        "PATH",
    ],
    "merge": [
        "--budget SIZE",
        "--critical-path",
        "--force",
        "--jobs N",
        "--no-cache",
        "--redact",
        "--strict",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
        "-v --verbose",
        "PATH",
    ],
    "lake": [
        "-h --help",
        "KIND",
    ],
    "lake add": [
        "--cluster NAME",
        "--hours HOURS",
        "--job NAME",
        "--lake FOLDER",
        "--model NAME",
        "--team NAME",
        "-h --help",
        "-q --quiet",
        "-v --verbose",
        "PATH",
    ],
    "lake ask": [
        "--days N",
        "--force",
        "--job NAME",
        "--json",
        "--lake FOLDER",
        "--lang LANG",
        "--price PRICE",
        "--sql SELECT",
        "--top N",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
        "QUESTION",
    ],
    "lake prune": [
        "--days N",
        "--lake FOLDER",
        "-h --help",
    ],
    "plan": [
        "-h --help",
        "KIND",
    ],
    "plan train": [
        "--accept-chance SHARE",
        "--batch N",
        "--batch-tokens COUNT",
        "--by WHAT",
        "--chunks N",
        "--cp N",
        "--dense-layers N",
        "--dp N",
        "--emit FRAMEWORK",
        "--ep N",
        "--execution HOW",
        "--expert-ffn N",
        "--experts N",
        "--experts-per-token N",
        "--failures RATE|NAME",
        "--ffn N",
        "--footprint NAME=NUMBER,...",
        "--force",
        "--gpus N",
        "--gpus-per-node N",
        "--head-dim N",
        "--heads N",
        "--hidden N",
        "--imbalance FACTOR",
        "--json",
        "--kv-heads N",
        "--lang LANG",
        "--layers N",
        "--lora RANK",
        "--machine NAME|FILE",
        "--measured RUN|step=TIME,...",
        "--measured-layout NAME=VALUE,...",
        "--micro-batch N",
        "--model MODEL",
        "--nic-gbit GBIT",
        "--no-flash",
        "--no-gate",
        "--offload SHARE",
        "--pp N",
        "--precision TYPE",
        "--price AMOUNT",
        "--pue RATIO",
        "--recompute WHAT",
        "--recovery NAME|RESTART,SAVE",
        "--schedule NAME",
        "--sequence N",
        "--sequence-parallel --no-sequence-parallel",
        "--shard N",
        "--shared-ffn N",
        "--stack NAME",
        "--storage SIZE",
        "--tied",
        "--tokens COUNT",
        "--top N",
        "--tp N",
        "--vocab N",
        "--zero STAGE",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
    ],
    "plan serve": [
        "--cache TYPE",
        "--concurrency N",
        "--dense-layers N",
        "--emit ENGINE",
        "--engine NAME",
        "--expert-ffn N",
        "--experts N",
        "--experts-per-token N",
        "--ffn N",
        "--force",
        "--gpus N",
        "--head-dim N",
        "--heads N",
        "--hidden N",
        "--json",
        "--kv-heads N",
        "--lang LANG",
        "--layers N",
        "--machine NAME|FILE",
        "--max-tpot TIME",
        "--max-ttft TIME",
        "--measured RUN",
        "--model MODEL",
        "--no-gate",
        "--output-tokens N",
        "--precision TYPES",
        "--price AMOUNT",
        "--prompt N",
        "--shared-ffn N",
        "--tied",
        "--tp N",
        "--vocab N",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
    ],
    "plan validate": [
        "--force",
        "--json",
        "--lang LANG",
        "-h --help",
        "-o --output FILE",
        "-q --quiet",
    ],
    "run": [
        "--after N",
        "--budget SHARE",
        "--capture-signal NAME",
        "--diagnose",
        "--digest-wait SECONDS",
        "--digests",
        "--every N",
        "--keep N",
        "--keep-traces N",
        "--lang LANG",
        "--max-disk SIZE",
        "--max-memory SIZE",
        "--memory",
        "--no-fork",
        "--no-shapes",
        "--numbers FOLDER",
        "--report",
        "--stacks",
        "--stall-after SECONDS",
        "--steps N",
        "--timed-after SECONDS",
        "--watch-only",
        "--when IF",
        "--with LEVER",
        "-h --help",
        "-o --output FOLDER",
        "-q --quiet",
    ],
}


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    return sorted(" ".join([*action.option_strings, str(action.metavar or "")]).strip() for action in parser._actions)


def test_flags_are_frozen() -> None:
    assert {name: flags_of(parser) for name, parser in parsers().items()} == FLAGS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "redline", *arguments], capture_output=True, text=True, check=False, timeout=180
    )


def test_help_names_every_verb_and_every_exit_code() -> None:
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for name, verb in VERBS.items():
        assert f"  {name}" in done.stdout
        assert verb.summary in done.stdout
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
