"""The same job by a pool, by Ray and by an array job of Slurm: the same result, byte by byte, whatever dies.

`REDLINE_RAY_PYTHON` names a Python with Ray and with what Redline needs; Slurm is Debian's `slurm-wlm`, and needs root.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.fleet.executors import sbatch_file
from bench.fleet.slurm_node import slurm_node, why_absent
from redline.cli import main
from tests.support.command_line import ROOT
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

RAY = os.environ.get("REDLINE_RAY_PYTHON") or (sys.executable if find_spec("ray") else None)
SECONDS = 600.0  # only guards against a hang

needs_ray = pytest.mark.skipif(RAY is None, reason="no Ray here, and REDLINE_RAY_PYTHON names no Python with it")


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    late = Straggler(rank=2, extra_us=2000, where="host")
    write_job(JobSpec(ranks=4, steps=2, layers=1, stragglers=(late,)), tmp_path / "traces")
    return tmp_path / "traces"


@contextmanager
def by_ray(folder: Path, *arguments: object, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A command of Redline in that folder, on a Ray of two workers; it is ended at the latest with the block."""
    assert RAY is not None
    command = [RAY, "-m", "redline", *map(str, arguments), "--no-cache", "--executor", "ray"]
    known = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **environment}
    known.pop("RAY_ADDRESS", None)
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=folder, env=known, stdout=pipe, stderr=pipe, text=True)
    with process:
        yield process
        if process.poll() is None:
            process.kill()


def refused(folder: Path, *arguments: object, **environment: str) -> str:
    with by_ray(folder, *arguments, **environment) as process:
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 2, said
    return said


@needs_ray
def test_ray_gives_what_the_pool_gives_and_names_a_file_that_is_gone(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths are relative, as results carry them; one trace is a link to nothing."""
    (traces / "rank-9.pt.trace.json.gz").symlink_to(tmp_path / "gone")
    monkeypatch.chdir(tmp_path)
    here = ["diagnose", "traces/*.json.gz", "--no-cache", "--quiet", "--jobs", "2", "-o", "pool.json"]
    assert main(here) == 0
    with by_ray(tmp_path, *here[:-1], "ray.json") as process:
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert (tmp_path / "ray.json").read_bytes() == (tmp_path / "pool.json").read_bytes()
    (failure,) = json.loads((tmp_path / "ray.json").read_text())["failures"]
    assert "rank-9.pt.trace.json.gz" in failure["message"]


KILLS = """
import os, signal, sys
from pathlib import Path
from redline.job.executors import executor, over_files

def work(path):
    if path.name == "2" and not (path.parent / "killed").exists():
        (path.parent / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if path.name == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    return path.read_text()

paths = [Path(name) for name in sys.argv[1:]]
choice = executor.ExecutorChoice(name="ray", jobs=2)
print(sorted((paths[index].name, repr(outcome)[:10]) for index, outcome in over_files.over_files(work, paths, choice)))
"""


@needs_ray
def test_a_worker_of_ray_that_is_killed_costs_a_second_try(tmp_path: Path) -> None:
    """Killed in its work by SIGKILL: once, and the file is read all the same; always, and it costs that file."""
    assert RAY is not None
    for name in ("0", "1", "2", "deadly"):
        (tmp_path / name).write_text(f"content of {name}")
    paths = [str(tmp_path / name) for name in ("0", "1", "2", "deadly")]
    done = subprocess.run(
        [RAY, "-c", KILLS, *paths],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (tmp_path / "killed").exists()
    assert done.returncode == 0, done.stderr
    files = [(name, repr(f"content of {name}")[:10]) for name in ("0", "1", "2")]
    assert done.stdout.strip() == str([*files, ("deadly", "WorkerDied")])


@needs_ray
def test_a_cluster_that_does_not_answer_is_said_at_once(traces: Path, tmp_path: Path) -> None:
    said = refused(tmp_path, "diagnose", traces, "--address", "127.0.0.1:9")
    assert "no Ray cluster at 127.0.0.1:9: " in said
    assert "leave --address out to start one on this machine" in said


@needs_ray
def test_a_ray_that_does_not_start_is_said_in_a_line(traces: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refused(tmp_path, "diagnose", traces, RAY_TMPDIR=str(tmp_path / "file"))
    assert "Ray did not start on this machine: " in said
    assert "leave --executor ray out, or give the address of a cluster that runs" in said
    assert "Traceback" not in said


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed here")
def test_without_ray_one_line_says_what_to_install(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(traces), "--no-cache", "--executor", "ray"]) == 2
    assert capsys.readouterr().err == "redline: --executor ray needs Ray: pip install 'redline-perf[ray]'\n"


@pytest.mark.slow
@pytest.mark.skipif(bool(why_absent()), reason=why_absent() or "Slurm is here")
def test_an_array_job_of_slurm_leaves_what_one_command_does(traces: Path, tmp_path: Path) -> None:
    """The sbatch file of the page, as it stands there."""
    program = tmp_path / "bin" / "redline"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -m redline "$@"\n')
    program.chmod(0o755)
    (tmp_path / "digest.sbatch").write_text(sbatch_file())
    assert main(["digest", str(traces), "-o", str(tmp_path / "one"), "--no-cache", "--quiet"]) == 0
    with slurm_node(tmp_path / "node") as environment:
        submitted = subprocess.run(
            ["sbatch", "--wait", "digest.sbatch"],
            cwd=tmp_path,
            env={**environment, "PATH": f"{program.parent}:{os.environ['PATH']}", "REDLINE_CACHE": "off"},
            timeout=SECONDS,
            check=False,
        )
    logs = {path.name: path.read_text() for path in tmp_path.glob("digest-*.log")}
    assert submitted.returncode == 0, logs
    assert len(logs) == 8
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(names) == 4
    assert sorted(path.name for path in (tmp_path / "digests").iterdir()) == names
    # Paths of traces are relative there, so the digests are compared by what is said of the job.
    for name in ("one", "digests"):
        assert main(["diagnose", str(tmp_path / name), "--quiet", "-o", str(tmp_path / f"{name}.json")]) == 0
    one, array = (
        (tmp_path / f"{name}.json").read_text().replace(f"{traces}/", "traces/") for name in ("one", "digests")
    )
    assert array == one
