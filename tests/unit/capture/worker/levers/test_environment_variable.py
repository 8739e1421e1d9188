"""Levers of the environment in real processes: they took only where the kernel or a library acts on them."""

import sysconfig
from pathlib import Path

import pytest

from redline.capture import levers
from redline.capture.levers import environment_of, parse_lever
from redline.capture.worker.levers import process_settings
from redline.capture.worker.levers.process_settings import EnvironmentVariables
from tests.support.trial_jobs import run_trial

SCRIPT = """
import torch
from descent import Descent
model = torch.nn.Linear(SIZE, SIZE)
optimizer = Descent(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.ones(1, SIZE)).sum().backward()
    optimizer.step()
"""
KERNEL = Path(process_settings._HUGE_PAGES)


@pytest.mark.skipif(
    not KERNEL.exists() or "[madvise]" not in KERNEL.read_text(),
    reason="the kernel gives huge pages to all or none",
)
@pytest.mark.parametrize(
    ("size", "effect"),
    [
        (2048, (True, "THP_MEM_ALLOC_ENABLE=1")),
        (8, (False, "no memory of the process is in huge pages")),
    ],
)
def test_huge_pages_are_those_of_the_kernel(tmp_path: Path, size: int, effect: tuple[bool, str]) -> None:
    script = SCRIPT.replace("SIZE", str(size))
    ended = run_trial(tmp_path, script, "huge-pages", last_step=3, environment={"THP_MEM_ALLOC_ENABLE": "1"})
    assert ended.exit_code == 0, ended.errors
    assert ended.levers == [effect]


@pytest.mark.parametrize("text", ["always madvise [never]\n", None])
def test_a_kernel_without_huge_pages_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    told = tmp_path / "enabled"
    if text is not None:
        told.write_text(text)
    monkeypatch.setattr(process_settings, "_HUGE_PAGES", str(told))
    monkeypatch.setattr(process_settings, "_began_with", lambda: {"THP_MEM_ALLOC_ENABLE": "1"})
    effect = EnvironmentVariables(parse_lever("huge-pages")).took()
    assert not effect.took
    assert effect.what == f"the kernel gives no huge pages: see {told}"


def test_a_library_that_is_preloaded_is_looked_for_in_the_process(tmp_path: Path) -> None:
    """Any library does: what a process has loaded is what is looked at."""
    folder = tmp_path / "lib"
    folder.mkdir()
    real = next(path for path in Path(sysconfig.get_config_var("DESTSHARED")).glob("_ctypes.*.so"))
    (folder / "libjemalloc.so.2").symlink_to(real)
    variables = {"LD_LIBRARY_PATH": str(folder)}
    preload = environment_of(parse_lever("preload=jemalloc"), variables)
    effects = {}
    for name, environment in {"with": variables | preload, "without": variables}.items():
        ended = run_trial(
            tmp_path, SCRIPT.replace("SIZE", "8"), "preload=jemalloc", last_step=3, environment=environment
        )
        effects[name] = ended.levers
    assert effects == {
        "with": [(True, f"LD_PRELOAD={folder}/libjemalloc.so.2")],
        "without": [(False, "the process began without LD_PRELOAD")],
    }


def test_an_allocator_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levers, "_FOLDERS", ())
    monkeypatch.setattr(process_settings, "_began_with", dict)
    effect = EnvironmentVariables(parse_lever("preload=tcmalloc")).took()
    assert (effect.took, effect.what) == (False, "tcmalloc is not on this machine, nor in LD_LIBRARY_PATH")
