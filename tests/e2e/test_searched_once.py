"""A command searches the folders that it was given once, whatever it does with the files afterwards."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redline.cli import main
from redline.job.find_files import find_traces
from tests.support.traces.synthetic import JobSpec, write_job

Scans = Callable[[Callable[[], object]], int]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    write_job(JobSpec(ranks=2, steps=2, layers=1), tmp_path / "job", compress=False)
    return tmp_path / "job"


@pytest.fixture
def scans(job: Path, monkeypatch: pytest.MonkeyPatch) -> Scans:
    """How often an action lists the folder of the job, or one below it."""
    seen: list[Path] = []
    scandir = os.scandir

    def counted(path: Any = ".") -> Any:
        if not isinstance(path, int):  # the cache lists a folder that it holds open
            seen.append(Path(path))
        return scandir(path)

    def of(action: Callable[[], object]) -> int:
        seen.clear()
        action()
        return sum(job in (path, *path.parents) for path in seen)

    monkeypatch.setattr(os, "scandir", counted)
    return of


@pytest.mark.parametrize(
    "arguments",
    [
        ["diagnose", "JOB"],
        ["diagnose", "JOB", "--host", "--ranks"],
        ["diagnose", "JOB", "--redact"],
        ["diagnose", "JOB", "-o", "OUT/report.html", "--with-trace"],
        ["diagnose", "JOB", "-o", "OUT/report.html", "--with-trace", "--redact"],
        ["digest", "JOB", "-o", "OUT/digests", "--redact"],
        ["inspect", "JOB"],
        ["merge", "JOB", "-o", "OUT/merged.json", "--redact"],
    ],
    ids=" ".join,
)
def test_the_files_of_a_job_are_searched_once(arguments: list[str], job: Path, scans: Scans, tmp_path: Path) -> None:
    once = scans(lambda: find_traces([job], digests=True))
    assert once > 0
    words = [word.replace("JOB", str(job)).replace("OUT", str(tmp_path)) for word in arguments]
    codes: list[int] = []
    assert scans(lambda: codes.append(main(words))) == once
    assert codes == [0]


def test_an_error_without_names_of_files_searches_no_more(
    job: Path, scans: Scans, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in job.glob("rank-*"):
        path.write_text("rubbish")
    once = scans(lambda: find_traces([job], digests=True))
    assert scans(lambda: main(["diagnose", str(job), "--redact"])) == once
    error = capsys.readouterr().err
    assert "not JSON" in error
    assert "rank-0" not in error
