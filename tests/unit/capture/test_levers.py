"""Names of levers, their values, and the page that lists them."""

import re
from pathlib import Path

import pytest

from redline.capture import levers
from redline.capture.lever_kinds import KINDS
from redline.capture.levers import environment_of, parse_lever
from redline.errors import UsageError
from redline.findings.registry import RULES
from redline.trials.lever_pages import lever_page_of
from tests.support.command_line import ROOT

GROWING = "expandable_segments:True"
PAGE = ROOT / "docs" / "reference" / "levers.md"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("fused", "fused"),
        ("autocast", "autocast=bf16"),
        ("compile=root", "compile=root"),
        ("workers=0", "workers=0"),
        ("switch=new path", "switch=new path"),
        ("env:OMP_PROC_BIND=true", "env:OMP_PROC_BIND=true"),
        ("env:A=b=c", "env:A=b=c"),
        ("env:EMPTY=", "env:EMPTY"),
    ],
)
def test_a_lever_is_read_and_written(text: str, written: str) -> None:
    assert str(parse_lever(text)) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fuse", "there is no lever 'fuse'; there are: switch, fused, foreach, "),
        ("fused=1", "lever fused takes no value"),
        ("workers", "lever workers needs a value: workers=N"),
        ("workers=many", "lever workers needs a whole number from 0 on, not 'many'"),
        ("threads=0", "lever threads needs a whole number from 1 on, not '0'"),
        ("compile=all", "lever compile has no value 'all'; it has: blocks, root"),
        ("env:=1", "a variable of the environment is written env:NAME=VALUE"),
        ("env:NAME", "a variable of the environment is written env:NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_lever(text)


def test_variables_of_the_environment() -> None:
    assert environment_of(parse_lever("malloc-arenas=2"), {}) == {"MALLOC_ARENA_MAX": "2"}
    assert environment_of(parse_lever("omp-wait"), {}) == {"OMP_WAIT_POLICY": "passive"}
    assert environment_of(parse_lever("env:A=b=c"), {}) == {"A": "b=c"}
    assert environment_of(parse_lever("env:EMPTY="), {}) == {"EMPTY": ""}
    assert environment_of(parse_lever("fused"), {}) == {}


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        ({}, {"PYTORCH_CUDA_ALLOC_CONF": GROWING}),
        ({"PYTORCH_CUDA_ALLOC_CONF": ""}, {"PYTORCH_CUDA_ALLOC_CONF": GROWING}),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:[256:1,>:4], max_split_size_mb:64"},
            {"PYTORCH_CUDA_ALLOC_CONF": f"roundup_power2_divisions:[256:1,>:4], max_split_size_mb:64,{GROWING}"},
        ),
        (
            {"PYTORCH_ALLOC_CONF": "expandable_segments:False,max_split_size_mb:64, expandable_segments : False"},
            {"PYTORCH_ALLOC_CONF": f"max_split_size_mb:64,{GROWING}"},
        ),
        (
            {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:32"},
            {"PYTORCH_CUDA_ALLOC_CONF": f"max_split_size_mb:32,{GROWING}"},  # torch reads no other
        ),
    ],
)
def test_settings_of_the_allocator_are_added_to(inherited: dict[str, str], expected: dict[str, str]) -> None:
    lever = parse_lever("expandable-segments")
    assert environment_of(lever, inherited) == expected
    assert environment_of(lever, {**inherited, **expected}) == expected


def test_a_variable_that_the_user_names_is_replaced() -> None:
    inherited = {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}
    assert environment_of(parse_lever(f"env:PYTORCH_ALLOC_CONF={GROWING}"), inherited) == {
        "PYTORCH_ALLOC_CONF": GROWING
    }


def test_findings_are_those_that_there_are() -> None:
    codes = {rule.code for rule in RULES}
    assert {code for kind in KINDS.values() for code in kind.findings} <= codes


def test_the_page_has_the_table_of_the_code() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.count("|") == 7 and line.startswith("| `")]
    shown = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0].strip("`") for row in shown] == list(KINDS)
    for row, kind in zip(shown, KINDS.values(), strict=True):
        default = f"; `{kind.default}` if none is given" if kind.default and "|" in kind.values else ""
        assert row[1] == (f"`{kind.values.replace('|', '` or `')}`{default}" if kind.values else ""), kind.name
        assert row[2].startswith(kind.summary), kind.name
        assert row[3] == ("yes" if kind.switchable else "no"), kind.name
        assert row[4] == kind.numerics, kind.name
        assert re.findall(r"\[(RL-\w+)\]", row[5]) == list(kind.findings), kind.name


def test_conflicts_are_said_on_both_sides_and_on_their_pages() -> None:
    for name, kind in KINDS.items():
        assert name not in kind.conflicts
        for other in kind.conflicts:
            assert name in KINDS[other].conflicts, (name, other)
            assert f"`{other}`" in lever_page_of(name).order, (name, other)
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith("- **Not together.**")]
    assert set(re.findall(r"`([^`]+)`", line)) == {name for name, kind in KINDS.items() if kind.conflicts}


# Allocators to preload: found where users and distributions have them, in front of what is preloaded already.


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only one of the system."""
    monkeypatch.setattr(levers, "_FOLDERS", (str(tmp_path / "system"),))
    (tmp_path / "system").mkdir()
    return tmp_path / "system"


def test_a_machine_without_it_changes_nothing(folder: Path) -> None:
    (folder / "libjemalloc.so.2").mkdir()  # no file
    assert environment_of(parse_lever("preload=jemalloc"), {"LD_PRELOAD": "libother.so"}) == {}


@pytest.mark.parametrize(
    ("files", "value", "chosen"),
    [
        (("libjemalloc.so", "libjemalloc.so.2"), "jemalloc", "libjemalloc.so.2"),
        (("libtcmalloc_minimal.so.4",), "tcmalloc", "libtcmalloc_minimal.so.4"),
        (("libtcmalloc.so.4", "libtcmalloc_minimal.so.4", "libjemalloc.so.2"), "tcmalloc", "libtcmalloc.so.4"),
    ],
)
def test_the_library_comes_first(folder: Path, files: tuple[str, ...], value: str, chosen: str) -> None:
    for file in files:
        (folder / file).touch()
    lever = parse_lever(f"preload={value}")
    inherited = {"LD_PRELOAD": "/a/libone.so /b/libtwo.so"}
    expected = {"LD_PRELOAD": f"{folder / chosen}:/a/libone.so:/b/libtwo.so"}
    assert environment_of(lever, inherited) == expected
    assert environment_of(lever, expected) == expected


@pytest.mark.parametrize("variable", ["LD_LIBRARY_PATH", "CONDA_PREFIX"])
def test_a_library_of_the_user_goes_before_that_of_the_system(folder: Path, tmp_path: Path, variable: str) -> None:
    own = tmp_path / "own" / "lib"
    own.mkdir(parents=True)
    for place in (own, folder):
        (place / "libjemalloc.so.2").touch()
    inherited = {variable: str(own.parent if variable == "CONDA_PREFIX" else own)}
    assert environment_of(parse_lever("preload=jemalloc"), inherited) == {"LD_PRELOAD": f"{own}/libjemalloc.so.2"}
