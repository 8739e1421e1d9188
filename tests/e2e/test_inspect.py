"""`redline inspect` as users run it: what goes where, how it ends, and what it says when it cannot."""

import errno
import gzip
import io
import json
import os
import pty
import shlex
import signal
import subprocess
import tarfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command_line import REDLINE, environment, run_redline
from tests.support.events import collective, document, kernel, launch, op, region

INSPECT = [*REDLINE, "inspect"]


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_redline("inspect", *arguments, cwd=cwd)


def follow(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command that a `next:` line names."""
    return run_redline(*shlex.split(line.removeprefix("next: redline ")), cwd=cwd)


def of_rank(rank: int) -> bytes:
    events = [
        region("ProfilerStep#1", 0, 100),
        region("my step", 10, 20),
        op("aten::mm", 12, 10),
        launch(15, correlation=1),
        kernel("gemm", 40, 20, correlation=1),
        *(collective(60 + 10 * number + rank, 5) for number in range(3)),
    ]
    return document(events, rank=rank, world_size=2)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in (0, 1):
        (folder / f"rank-{rank}.json.gz").write_bytes(gzip.compress(of_rank(rank)))
    return folder


def archive_of(folder: Path, **members: bytes) -> Path:
    path = folder / "job.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(f"{name}.json")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


# --- what can be inspected --------------------------------------------------------------------------------------------


def test_a_folder(job: Path) -> None:
    done = run(job)
    assert done.returncode == 0
    assert done.stdout.startswith("2 ranks of 2 in 2 traces: ")
    assert "Traceback" not in done.stderr


def test_a_file(job: Path) -> None:
    done = run(job / "rank-1.json.gz")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 rank of 2 in 1 trace: ")


def test_a_pattern_and_several_names(job: Path) -> None:
    for arguments in ([f"{job}/*.gz"], sorted(job.iterdir())):
        done = run(*arguments)
        assert (done.returncode, done.stdout[:7]) == (0, "2 ranks")


def test_an_archive(tmp_path: Path) -> None:
    done = run(archive_of(tmp_path, rank0=of_rank(0), rank1=of_rank(1)))
    assert done.returncode == 0
    assert done.stdout.startswith("2 ranks of 2 in 2 traces: ")


def test_one_bad_file_among_good_ones_is_said_and_forgiven(job: Path) -> None:
    (job / "rank-2.json").write_text("rubbish")
    done = run(job)
    assert done.returncode == 0
    assert "unread" in done.stdout


# --- what cannot ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"rubbish", "not JSON"),
        (b"{}", "no traceEvents"),
        (b"[]", "a JSON list without any event"),
        (b"<html>", "an HTML page"),
        (b"\x80\x04", "a pickle"),
        (b"PK\x03\x04", "a zip archive"),
        (b'{"traceEvents": 5}', "not a list"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (gzip.compress(b" " * 30_000_000, mtime=0), "a bomb?"),
    ],
)
def test_what_is_no_trace_is_refused_in_a_line_or_two(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    done = run(path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"redline: {path}: ")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_a_folder_without_traces(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"redline: {tmp_path}: no trace in this folder")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    done = run("nowhere.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "redline: nowhere.json: no such file or folder, and as a pattern it matches nothing.\n"


def test_a_cut_archive_is_no_crash(tmp_path: Path) -> None:
    """An interrupted download: what is there is read, or refused; never a traceback."""
    noise = of_rank(0) + b" " + os.urandom(3000).hex().encode()
    path = archive_of(tmp_path, rank0=noise, rank1=noise)
    path.write_bytes(path.read_bytes()[:-600])
    done = run(path)
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["member of an archive", "name of a file"])
def test_nothing_in_a_message_can_harm_a_terminal(tmp_path: Path, place: str) -> None:
    evil = "\x1b]0;pwned\x07"
    path = tmp_path / f"a{evil}.json"
    if place == "name of a file":
        path.write_bytes(b"rubbish")
    else:
        path = archive_of(tmp_path, **{f"a{evil}": b"rubbish"})
    done = run(path)
    assert done.returncode == 2
    assert "pwned" in done.stderr
    assert not {"\x1b", "\x07"} & set(done.stderr)


# --- what goes where --------------------------------------------------------------------------------------------------


def test_json_is_all_that_is_on_stdout(job: Path) -> None:
    done = run(job, "--json")
    record = json.loads(done.stdout)
    assert (done.returncode, record["kind"], len(record["ranks"])) == (0, "inspection", 2)


@pytest.mark.parametrize(("name", "is_json"), [("report.json", True), ("report.txt", False), ("report", False)])
def test_the_extension_says_the_format(job: Path, tmp_path: Path, name: str, is_json: bool) -> None:
    done = run(job, "-o", tmp_path / name)
    assert (done.returncode, done.stdout) == (0, "")
    text = (tmp_path / name).read_text()
    if is_json:
        assert json.loads(text)["kind"] == "inspection"
    else:
        assert text.startswith("2 ranks of 2")


def test_json_into_a_file_of_any_name(job: Path, tmp_path: Path) -> None:
    assert run(job, "--json", "-o", tmp_path / "report.txt").returncode == 0
    assert json.loads((tmp_path / "report.txt").read_text())["kind"] == "inspection"


def test_an_existing_file_is_replaced_only_by_force(job: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.txt"
    target.write_text("precious")
    done = run(job, "-o", target)
    assert done.returncode == 2
    assert done.stderr == f"redline: {target} already exists; use --force to replace it, or choose another name\n"
    assert target.read_text() == "precious"
    assert run(job, "-o", target, "--force").returncode == 0
    assert target.read_text().startswith("2 ranks")


def test_an_extension_of_no_format_is_refused(job: Path, tmp_path: Path) -> None:
    assert run(job, "-o", tmp_path / "report.html").returncode == 2


def test_the_next_command_is_on_stderr_and_works(job: Path, tmp_path: Path) -> None:
    done = run(job, cwd=tmp_path)
    assert "next:" not in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("next: redline merge ")
    assert follow(line, tmp_path).returncode == 0
    assert (tmp_path / "merged.json.gz").exists()


def test_following_the_advice_inside_the_folder_does_not_change_the_job(job: Path) -> None:
    before = run(".", "--json", "-q", cwd=job)
    line = run(".", cwd=job).stderr.splitlines()[-1]
    assert follow(line, job).returncode == 0
    assert run(".", "--json", "-q", cwd=job).stdout == before.stdout


def test_quiet_leaves_stderr_empty(job: Path) -> None:
    done = run(job, "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2 ranks")


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--no-cache"], ["--jobs", "2"]])
def test_strict_fails_on_damage(tmp_path: Path, options: list[str]) -> None:
    path = tmp_path / "rank-0.json"
    path.write_bytes(document([op("a", 0, 5), {}]))
    assert run(path, *options).returncode == 0
    done = run(path, "--strict", *options)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"redline: {path}: ")
    assert "events without any field" in first
    assert "--strict" in second


def test_strict_passes_what_is_sound(job: Path) -> None:
    assert run(job, "--strict").returncode == 0


def test_the_users_steps(job: Path) -> None:
    record = json.loads(run(job, "--json", "--step-regex", "^my step$").stdout)
    assert [rank["step_ns"] for rank in record["ranks"]] == [[20_000], [20_000]]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_any_number_of_processes_prints_the_same(job: Path, jobs: str) -> None:
    assert run(job, "--json", "--jobs", jobs).stdout == run(job, "--json").stdout


# --- progress and interruption ----------------------------------------------------------------------------------------


def stderr_on_a_terminal(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and stderr of a run whose stderr is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*INSPECT, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=theirs, env=environment()
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError as error:
            if error.errno != errno.EIO:  # how Linux says that the other side is closed
                raise
        code = process.wait(60)
    os.close(ours)
    return code, shown.decode()


def test_quiet_shows_no_progress_even_on_a_terminal(job: Path) -> None:
    assert stderr_on_a_terminal(job, "-q") == (0, "")


def wait_until_read(group: int, path: Path) -> None:
    """Until a process of the group has the file open."""
    for _ in range(600):
        for link in Path("/proc").glob("[0-9]*/fd/*"):
            with suppress(OSError):
                if link.readlink() == path and os.getpgid(int(link.parts[2])) == group:
                    return
        time.sleep(0.05)
    raise AssertionError("nobody reads")


def _hear_ctrl_c() -> None:
    """Who was started in the background by a shell ignores it, and so would those whom it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_it_in_one_line(tmp_path: Path, jobs: str) -> None:
    """The traces are long, so that there is time to interrupt; a terminal signals the whole group."""
    event = b'{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":1,"dur":1,"args":{"External id":1}},'
    paths = [tmp_path / f"rank-{rank}.json" for rank in (0, 1)]
    for path in paths:
        path.write_bytes(b'{"traceEvents":[' + event * 2_000_000 + b"{}]}")
    with subprocess.Popen(
        [*INSPECT, "--jobs", jobs, *map(str, paths)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(),
        preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 (nothing else runs in this process)
    ) as process:
        for path in paths[: int(jobs)]:
            wait_until_read(process.pid, path)
        os.killpg(process.pid, signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out) == (130, "")
    assert err == "redline: interrupted\n"
