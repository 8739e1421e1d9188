"""`redline diagnose -o report.html` as users run it: what is written, what is linked, and what is refused."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from redline.trace.reader import read_file
from tests.support.command_line import REDLINE, environment, run_redline
from tests.support.events import document, kernel, op, region
from tests.support.traces.synthetic import JobSpec, write_job

MOST_BYTES = 6_000_000


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_redline("diagnose", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs") / "job"
    write_job(JobSpec(ranks=2, steps=2, layers=2), folder)
    return folder


def test_the_extension_says_that_it_is_a_report(job: Path, tmp_path: Path) -> None:
    done = run(job, "-o", tmp_path / "report.html")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"next: open {tmp_path / 'report.html'} in a browser\n"
    text = (tmp_path / "report.html").read_text()
    assert text.lstrip().startswith("<!doctype html>")
    assert '<html lang="en">' in text
    assert 'data-chart="strip"' in text
    assert len(text.encode()) <= MOST_BYTES
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_it_can_go_to_a_pipe_and_be_in_chinese(job: Path) -> None:
    done = run(job, "--format", "html", "--lang", "zh", "-q")
    assert done.returncode == 0
    assert '<html lang="zh-CN">' in done.stdout
    assert re.search(r"<h1>[^<]*[\u4e00-\u9fff]", done.stdout)


def test_it_does_not_fill_a_terminal(job: Path) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*REDLINE, "diagnose", str(job), "--format", "html"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=180,
        env=environment(),
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert done.stderr == "redline: diagnose: an HTML report is 2 MB of text; give it a file, such as -o report.html\n"


def test_a_report_is_not_replaced_by_accident(job: Path, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    done = run(job, "-o", tmp_path / "report.html")
    assert done.returncode == 2
    assert "already exists; use --force to replace it" in done.stderr
    assert (tmp_path / "report.html").read_text() == "mine"


@pytest.mark.parametrize("name", ["report.html", "report.json"])
def test_a_report_of_ours_is_replaced(job: Path, tmp_path: Path, name: str) -> None:
    for _ in range(2):
        done = run(job, "-o", tmp_path / name, "-q")
        assert (done.returncode, done.stderr) == (0, "")


# --- the trace beside it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [True, False])
def test_the_trace_goes_beside_it_and_is_linked(job: Path, tmp_path: Path, several: bool) -> None:
    traces = sorted(job.glob("*.json*"))[: 2 if several else 1]
    done = run(*traces, "-o", tmp_path / "my report.html", "--with-trace", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    beside = tmp_path / "my report.trace.json.gz"
    assert len(read_file(beside).timelines) == len(traces)
    text = (tmp_path / "my report.html").read_text()
    assert '<a href="./my%20report.trace.json.gz" download>my report.trace.json.gz</a>' in text


@pytest.mark.parametrize("arguments", [("-o", "report.md"), ("--format", "html"), ()])
def test_only_a_report_with_a_name_has_a_trace_beside_it(job: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(job, *arguments, "--with-trace", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "redline: diagnose: --with-trace is for an HTML report; give it a name, such as -o report.html\n"
    )
    assert not list(tmp_path.iterdir())


def test_digests_have_no_trace_to_put_beside(job: Path, tmp_path: Path) -> None:
    assert run_redline("digest", job, "-o", tmp_path / "digests").returncode == 0
    done = run(tmp_path / "digests", "-o", tmp_path / "report.html", "--with-trace")
    assert done.returncode == 2
    assert done.stderr == "redline: diagnose: --with-trace needs the traces themselves, and a digest was given\n"


def test_a_trace_in_the_way_is_said_before_anything_is_written(job: Path, tmp_path: Path) -> None:
    (tmp_path / "report.trace.json.gz").write_text("mine")
    done = run(job, "-o", tmp_path / "report.html", "--with-trace")
    assert done.returncode == 2
    assert "report.trace.json.gz already exists" in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_nothing_private_is_in_either_file_when_redacted(tmp_path: Path) -> None:
    events = [region("ProfilerStep#1", 0, 1000), op("read /home/ottokar/secret.bin", 10, 300), kernel("gemm", 400, 500)]
    (tmp_path / "ottokar.json").write_bytes(document(events, host_name="ottokarhost"))
    done = run(tmp_path / "ottokar.json", "-o", tmp_path / "report.html", "--with-trace", "--redact")
    assert done.returncode == 0
    beside = read_file(tmp_path / "report.trace.json.gz").timelines[0]
    for text in ((tmp_path / "report.html").read_text(), " ".join(beside.texts), done.stderr):
        assert "ottokar" not in text
