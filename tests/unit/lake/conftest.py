"""What tests of the lake share: the digests of a small simulated job. They need the extra `lake`."""

from pathlib import Path

import pytest

from redline.verbs.digest import digest
from tests.support.traces.synthetic import JobSpec, Straggler, write_job


@pytest.fixture(scope="session")
def job_digests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `run-7/digests` with four ranks on two nodes; rank 3 computes longer."""
    folder = tmp_path_factory.mktemp("lake")
    spec = JobSpec(ranks=4, steps=2, layers=2, gpus_per_node=2, stragglers=(Straggler(rank=3, extra_us=3000),))
    write_job(spec, folder / "traces")
    digest([folder / "traces"], folder / "run-7" / "digests")
    return folder / "run-7" / "digests"


@pytest.fixture(scope="session")
def lake_of_one(job_digests: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with that job; to be read only."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    from redline.lake.rows import JobLabels
    from redline.verbs.lake import add_to_lake

    lake = tmp_path_factory.mktemp("of-one") / "lake"
    add_to_lake([job_digests], lake, labels=JobLabels(team="vision", hours=2.0))
    return lake
