"""Allocators to preload: found where users and distributions have them, in front of what is preloaded already."""

from pathlib import Path

import pytest

from redline.capture import levers
from redline.capture.levers import environment_of, parse_lever


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
