"""Verbs on a real S3 server that fails as stores do: the same results, failures named, nothing given away.

The server is moto's. CI does without it: `pip install 'redline-perf[s3]' 'moto[server]'` where the tests run, or
REDLINE_S3_PYTHON names a python that has both, and what Redline needs.
"""

import gzip
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.fleet.faulty_store import BUCKET, Faults, objects, proxied, put_object, s3_server, unfinished_uploads
from bench.fleet.stores import SECRET, Ended, access_to, redline, same_result
from tests.support.command_line import ROOT
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

PYTHON = os.environ.get("REDLINE_S3_PYTHON") or (
    sys.executable if all(map(importlib.util.find_spec, ("s3fs", "moto", "flask"))) else ""
)
pytestmark = pytest.mark.skipif(not PYTHON, reason="needs s3fs and moto[server], or REDLINE_S3_PYTHON")
RUN = f"s3://{BUCKET}/run"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_job(JobSpec(ranks=4, steps=3, layers=2, stragglers=(Straggler(rank=2, extra_us=1500),)), folder)
    return folder


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def server(job: Path) -> Iterator[str]:
    with s3_server(PYTHON) as server:
        for path in job.iterdir():
            put_object(server, f"run/{path.name}", path.read_bytes())
        yield server


@pytest.fixture
def store(server: str, faults: Faults) -> Iterator[str]:
    with proxied(server, faults) as address:
        yield address


def run(store: str, *arguments: object) -> Ended:
    environment = access_to(store) | {"PYTHONPATH": str(ROOT / "src")}
    ended = redline([*map(str, arguments)], environment, PYTHON)
    assert SECRET not in ended.output + ended.complaints
    assert ended.left_bytes == 0, "nothing is left in the folder for temporary files"
    return ended


def test_a_store_that_fails_gives_the_same_result(job: Path, store: str, faults: Faults) -> None:
    local = run(store, "diagnose", job, "--json")
    faults.refused, faults.cut, faults.short, faults.lossy_listing, faults.endless_listing = 0.15, 0.1, 0.05, 0.2, 0.2
    remote = run(store, "diagnose", f"{RUN}/", "--json", "--jobs", "1")
    assert remote.code == 0, remote.complaints
    assert same_result(local.output, job, remote.output)
    assert faults.done["refused"] + faults.done["cut"] + faults.done["short"] > 0


def test_an_object_that_never_comes_is_named(store: str, faults: Faults) -> None:
    faults.broken = r"rank-3\."
    ended = run(store, "inspect", f"{RUN}/*.json.gz", "--jobs", "1")
    assert ended.code == 0
    assert "Please reduce your request rate. (8 tries)" in ended.output


def test_results_go_into_a_store_and_hold_no_secret(server: str, store: str) -> None:
    assert run(store, "digest", RUN, "-o", f"s3://{BUCKET}/digests", "--jobs", "2").code == 0
    assert run(store, "merge", f"s3://{BUCKET}/run/*.gz", "-o", f"s3://{BUCKET}/out/merged.json.gz").code == 0
    report = run(store, "diagnose", f"s3://{BUCKET}/digests", "-o", f"s3://{BUCKET}/out/report.html")
    assert report.code == 0, report.complaints
    made = {key: data for key, data in objects(server).items() if not key.startswith("run/")}
    assert len(made) == 6
    for data in made.values():
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        assert SECRET.encode() not in text
    again = run(store, "digest", RUN, "-o", f"s3://{BUCKET}/digests")
    assert again.code == 2
    assert f"s3://{BUCKET}/digests/rank-00000.digest already exists; use --force to replace it" in again.complaints


def test_what_cannot_be_uploaded_is_not_there(server: str, store: str, faults: Faults) -> None:
    faults.refused_writes = True
    ended = run(store, "inspect", RUN, "-o", f"s3://{BUCKET}/out/inspection.json")
    assert ended.code == 2
    assert f"cannot write s3://{BUCKET}/out/inspection.json: OSError: [Errno 16] Please reduce" in ended.complaints
    assert not [key for key in objects(server) if key.startswith("out/")]
    assert unfinished_uploads(server) == 0
