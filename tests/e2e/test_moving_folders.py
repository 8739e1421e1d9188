"""Commands over folders that others change at that moment: each answers as of a state that there was, and all of it."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from redline.cli import main
from redline.verbs.digest import digest
from tests.support.traces.synthetic import JobSpec, write_job

RANKS = 3


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_job(JobSpec(ranks=RANKS, steps=2, layers=1), folder)
    (folder / "truth.json").unlink()
    return folder


@pytest.fixture
def run(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run with one window."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    shutil.copytree(traces, folder / "window-1")
    monkeypatch.chdir(tmp_path)
    return folder


@contextmanager
def meanwhile(change: Callable[[int], None], after_s: float) -> Iterator[None]:
    """The change is made once and again until the block ends."""
    ended = Event()

    def go_on() -> None:
        number = 0
        while not ended.wait(after_s):
            change(number)
            number += 1

    thread = Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def ranks_of(output: str) -> int:
    return len(json.loads(output)["ranks"])


def seconds_of(verb: str, capsys: pytest.CaptureFixture[str]) -> float:
    """How long the command takes here and now, once everything is imported."""
    arguments = [verb, "run", "--json", "--jobs", "1", "--no-cache"]
    assert main(arguments) == 0
    begun_s = time.monotonic()
    assert main(arguments) == 0
    capsys.readouterr()
    return time.monotonic() - begun_s


@pytest.mark.parametrize("verb", ["diagnose", "inspect"])
def test_a_window_that_is_renamed_while_it_is_read(run: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """At several moments of the command, as a synchronised folder is when it is complete."""
    took_s = seconds_of(verb, capsys)
    for place in range(8):
        renamed = Thread(target=rename_once, args=([run / "window-1", run / "window-2"], took_s * place / 8))
        renamed.start()
        code = main([verb, "run", "--json", "--jobs", "1", "--no-cache"])
        renamed.join()
        captured = capsys.readouterr()
        assert (code, ranks_of(captured.out)) == (0, RANKS), captured.err
        assert json.loads(captured.out)["failures"] == []
        (run / "window-2").rename(run / "window-1")


def rename_once(names: list[Path], after_s: float) -> None:
    time.sleep(after_s)
    names[0].rename(names[1])


def test_traces_that_become_digests_while_they_are_read(
    run: Path, traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`redline run --digests` deletes a trace once its digest is whole."""
    made = digest([traces], tmp_path / "made").paths
    window = run / "digests" / "window-1"
    window.mkdir(parents=True)

    def digested(number: int) -> None:
        if number < RANKS:
            (window / "part").write_bytes(made[number].read_bytes())
            (window / "part").rename(window / f"rank-{number}.digest")
            (run / "window-1" / f"rank-{number}.pt.trace.json.gz").unlink()

    with meanwhile(digested, after_s=0.05):
        for _ in range(6):
            code = main(["diagnose", "run", "--json", "--jobs", "1", "--no-cache"])
            captured = capsys.readouterr()
            assert (code, ranks_of(captured.out)) == (0, RANKS), captured.err


def test_windows_that_come_while_others_are_read(run: Path, traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whole windows appear, and old ones go: the newest that is whole counts."""

    def next_window(number: int) -> None:
        shutil.copytree(traces, run / "part")
        (run / "part").rename(run / f"window-{number + 2}")
        shutil.rmtree(run / f"window-{number + 1}")

    with meanwhile(next_window, after_s=3 * seconds_of("inspect", capsys)):
        for _ in range(8):
            code = main(["inspect", "run", "--json", "--jobs", "1", "--no-cache"])
            captured = capsys.readouterr()
            assert (code, ranks_of(captured.out)) == (0, RANKS), captured.err
