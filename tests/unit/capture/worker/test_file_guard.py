"""The user's files while a script is on trial: nothing is written to them, and the trial ends where it would be."""

import importlib.util
import os
from pathlib import Path

import pytest

from redline.capture.supervisor.trial_job import make_scratch
from redline.capture.worker.file_guard import EXIT_CODE, FileGuard
from tests.support.trial_jobs import TrialEnd, TrialRunner, run_trial

WRITES = {
    "open": "open('kept.txt', 'w')",
    "append": "open('kept.txt', 'ab')",
    "os.open": "os.open('kept.txt', os.O_RDWR)",
    "through a folder": "open('folder/new.txt', 'x')",
    "up and down": "open('folder/../kept.txt', 'w')",
    "absolute": "pathlib.Path(original, 'new.txt').write_text('')",
    "mkdir": "os.makedirs(f'{original}/new/deep', exist_ok=True)",
    "remove": "os.remove(f'{original}/kept.txt')",
    "remove in a folder": "os.remove('folder/inner.txt')",
    "relative to a folder": "os.remove('inner.txt', dir_fd=os.open('folder', os.O_RDONLY))",
    "rmtree": "shutil.rmtree('folder/')",
    "rename": "os.replace('new.txt', f'{original}/kept.txt')",
    "rename from": "os.rename(f'{original}/kept.txt', 'here.txt')",
    "move": "shutil.move(f'{original}/kept.txt', 'here.txt')",
    "copy": "shutil.copy('new.txt', 'folder')",
    "touch": "os.utime('kept.txt')",
    "symlink": "os.symlink('/', f'{original}/link')",
    "numpy": "np.save('folder/array', np.zeros(3))",
    "memmap": "np.memmap('kept.txt', mode='r+')",
    "torch.save": "torch.save({}, 'folder/state.pt')",
    "torch.save of a path": "torch.save({}, pathlib.Path(original, 'kept.txt'))",
    "old torch.save": "torch.save({}, 'folder/state.pt', _use_new_zipfile_serialization=False)",
    "torch.jit.save": "torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), 'folder/scripted.pt')",
    "distributed checkpoint": "dcp.save({'a': torch.ones(3)}, checkpoint_id='folder')",
}
ALLOWED = {
    "here": "open('new.txt', 'w').write('new')",
    "read": "open('kept.txt').read(); open('folder/inner.txt', 'rb').read(); np.memmap('kept.txt', mode='r')",
    "a link": "os.remove('kept.txt'); open('kept.txt', 'w').write('other')",
    "there already": "os.makedirs('folder', exist_ok=True)",
    "not there": "shutil.rmtree(f'{original}/none', ignore_errors=True)",
    "pycache": "os.makedirs(f'{original}/__pycache__', exist_ok=True)",
    "cache": "os.makedirs(f'{original}/.cache/torch', exist_ok=True)",
    "torch.save": "torch.save({}, 'state.pt'); torch.load('state.pt')",
    "buffer": "torch.save({}, io.BytesIO())",
    "elsewhere": "open(os.devnull, 'w'); tempfile.TemporaryFile()",
    "wrong": "exec('try: open(0.5, \"w\")\\nexcept TypeError: pass')",
}
SCRIPT = """
import io, os, pathlib, shutil, sys, tempfile
import numpy as np
import torch
import torch.distributed.checkpoint as dcp
original = ORIGINAL
open("new.txt", "w").close()
print("begun")
WRITE
print("written")
"""


KEPT = "kept" * (1 << 19)  # too large to be copied


@pytest.fixture
def original(tmp_path: Path) -> Path:
    folder = tmp_path / "original"
    (folder / "folder").mkdir(parents=True)
    (folder / "kept.txt").write_text(KEPT)
    (folder / "folder" / "inner.txt").write_text("inner")
    return folder


def _content(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def _tried(jobs: TrialRunner, original: Path, write: str) -> TrialEnd:
    script = SCRIPT.replace("ORIGINAL", repr(str(original))).replace("WRITE", write)
    with make_scratch(original) as scratch:
        return jobs.run(
            original.parent, script, working_folder=scratch, guarded=[str(original)], scratch=str(scratch), last_step=1
        )


@pytest.mark.parametrize("name", WRITES)
def test_a_write_ends_the_trial_before_it_is_done(jobs: TrialRunner, original: Path, name: str) -> None:
    before = _content(original)
    ended = _tried(jobs, original, WRITES[name])
    assert (ended.exit_code, ended.output) == (EXIT_CODE, "begun\n"), ended.errors
    assert str(ended.facts[0]["wrote"]).startswith(str(original))
    assert _content(original) == before


def test_what_touches_nothing_is_done(jobs: TrialRunner, original: Path) -> None:
    before = _content(original)
    ended = _tried(jobs, original, "\n".join(ALLOWED.values()))
    assert (ended.exit_code, ended.output) == (0, "begun\nwritten\n"), (ended.facts, ended.errors)
    assert "wrote" not in ended.facts[0]
    assert _content(original) == before


def test_workers_of_a_loader_are_told_and_say_nothing(jobs: TrialRunner, original: Path) -> None:
    write = """
class Writes(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, at):
        try:
            open(original + "/new.txt", "w")
        except PermissionError as error:
            return str(error)

print(*torch.utils.data.DataLoader(Writes(), num_workers=1))
"""
    ended = _tried(jobs, original, write)
    assert ended.exit_code == 0, ended.errors
    assert f"a trial does not write to {original}/new.txt" in ended.output
    assert "wrote" not in ended.facts[0]
    assert not (original / "new.txt").exists()


@pytest.mark.skipif(importlib.util.find_spec("safetensors") is None, reason="safetensors is not installed")
def test_safetensors_is_asked(jobs: TrialRunner, original: Path) -> None:
    write = "from safetensors.torch import save_file\nsave_file({'a': torch.ones(2)}, 'folder/a.safetensors')"
    ended = _tried(jobs, original, write)
    assert (ended.exit_code, ended.output) == (EXIT_CODE, "begun\n"), ended.errors
    assert not (original / "folder" / "a.safetensors").exists()


def test_a_process_without_torch_is_guarded_too(original: Path) -> None:
    script = "print('begun')\nopen('kept.txt', 'w')\n"
    with make_scratch(original) as scratch:
        ended = run_trial(
            original.parent, script, working_folder=scratch, guarded=[str(original)], scratch=str(scratch)
        )
    assert (ended.exit_code, ended.output) == (EXIT_CODE, "begun\n"), ended.errors
    assert ended.facts == [{"wrote": f"{original}/kept.txt"}]
    assert _content(original)["kept.txt"] == KEPT


def test_the_folder_for_temporary_files_may_be_written_where_it_lies_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    refused: list[str] = []
    guard = FileGuard([str(tmp_path)], [], refused.append)
    monkeypatch.setattr("os._exit", lambda code: None)
    guard.check(tmp_path / "tmp" / "file")
    guard.check(b"/dev/null")
    assert refused == []
    guard.check(tmp_path / "file")
    assert refused == [str(tmp_path / "file")]


def test_files_elsewhere_are_known_afterwards(tmp_path: Path) -> None:
    guard = FileGuard([str(tmp_path / "guarded")], [str(tmp_path / "scratch")], None)
    names = ("results/model.pt", "scratch/new.txt", ".cache/kernel", "torchinductor_me/code.so")
    for path in (tmp_path / name for name in names):
        path.parent.mkdir()
        path.touch()
        guard.heard("open", (str(path), "w", os.O_WRONLY))
    guard.check(tmp_path / "gone.txt")
    guard.heard("open", (str(tmp_path / "results" / "model.pt"), "r", os.O_RDONLY))
    assert guard.written_elsewhere() == [str(tmp_path / "results" / "model.pt")]


def test_a_scratch_folder_is_removed_and_what_it_links_to_stays(original: Path) -> None:
    before = _content(original)
    with make_scratch(original) as scratch:
        assert sorted(path.name for path in scratch.iterdir()) == ["folder", "kept.txt"]
        assert (scratch / "folder" / "inner.txt").read_text() == "inner"
        (scratch / "new").mkdir()
        (scratch / "new" / "file").write_text("")
    assert not scratch.exists()
    assert _content(original) == before
