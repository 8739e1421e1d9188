"""A module is told of once it is there, whoever imports it, and nothing of ours is seen."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redline.capture.worker.after_import import AfterImport


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, with a package; what was imported from it is forgotten."""
    (tmp_path / "madepackage").mkdir()
    (tmp_path / "madepackage" / "__init__.py").write_text("import json\n", encoding="utf-8")
    (tmp_path / "madepackage" / "part.py").write_text("ready = True\n", encoding="utf-8")
    (tmp_path / "madepackage" / "broken.py").write_text("raise RuntimeError('planted')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield tmp_path
    sys.meta_path[:] = before
    for name in [name for name in sys.modules if name.startswith("madepackage")]:
        del sys.modules[name]


def test_it_is_told_when_the_module_is_whole(modules: Path) -> None:
    told: list[bool] = []
    AfterImport({"madepackage.part": lambda module: told.append(module.ready)})
    importlib.import_module("madepackage")
    assert told == []
    importlib.import_module("madepackage.part")
    importlib.import_module("madepackage.part")
    assert told == [True]


def test_it_leaves_when_nothing_is_left_to_wait_for(modules: Path) -> None:
    before = list(sys.meta_path)
    told: list[str] = []
    AfterImport({name: lambda module: told.append(module.__name__) for name in ("madepackage", "madepackage.part")})
    assert len(sys.meta_path) == len(before) + 1
    module = importlib.import_module("madepackage.part")
    assert told == ["madepackage", "madepackage.part"]
    assert sys.meta_path == before
    assert module.__spec__ is not None
    assert type(module.__spec__).__name__ == "ModuleSpec"


def test_a_module_that_cannot_be_imported_raises_its_own_error(modules: Path) -> None:
    told: list[object] = []
    AfterImport({"madepackage.broken": told.append})
    with pytest.raises(RuntimeError, match="planted") as raised:
        importlib.import_module("madepackage.broken")
    assert told == []
    assert not any("redline" in str(entry.path) for entry in raised.traceback[1:])


def test_a_module_that_is_not_there_is_not_there(modules: Path) -> None:
    AfterImport({"madepackage.absent": lambda module: None})
    with pytest.raises(ModuleNotFoundError, match=r"madepackage\.absent"):
        importlib.import_module("madepackage.absent")
