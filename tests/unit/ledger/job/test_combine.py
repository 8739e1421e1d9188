"""Digests of a job: from traces or from files, against the machine that the user named or that the traces name."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from redline.errors import InputError, UnknownHardwareError
from redline.hardware.machine import Figure, FigureSource, Machine
from redline.hardware.profile import save_profile
from redline.job.read_files import JobOptions
from redline.ledger.job.combine import combine
from redline.ledger.job.digests import digest_job
from redline.ledger.job.first_screen import outline_of
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.digest_file import save_digest
from redline.trace.reader import ReadOptions
from tests.support.events import document, kernel, launch, op
from tests.support.traces.synthetic import JobSpec, ParallelSizes, Straggler, rank_file_name, simulate_job, write_rank

OPTIONS = JobOptions(jobs=1, use_cache=False)
SPEC = JobSpec(
    ranks=4,
    steps=2,
    layers=2,
    layout=ParallelSizes(dp=2, pp=2),
    microbatches=2,
    step_compute_us=2000,
    stragglers=(Straggler(rank=1, extra_us=500),),
)


@lru_cache
def _texts() -> tuple[bytes, ...]:
    schedule = simulate_job(SPEC)
    with TemporaryDirectory() as folder:
        for rank in range(SPEC.ranks):
            write_rank(schedule, rank, Path(folder), compress=False)
        return tuple((Path(folder) / rank_file_name(rank, compress=False)).read_bytes() for rank in range(SPEC.ranks))


def traces(folder: Path) -> list[Path]:
    paths = [folder / rank_file_name(rank, compress=False) for rank in range(SPEC.ranks)]
    for path, text in zip(paths, _texts(), strict=True):
        path.write_bytes(text)
    return paths


def digests(paths: Sequence[Path], machine: str | None = None, options: JobOptions = OPTIONS) -> tuple[Digest, ...]:
    found = digest_job(paths, machine, options)
    assert found.failures == ()
    return found.digests


# --- the machine ------------------------------------------------------------------------------------------------------


def test_each_trace_is_held_against_its_own_device(tmp_path: Path) -> None:
    (first, *_) = digests(traces(tmp_path))
    assert (first.facts.device_name, first.facts.machine) == ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB")
    assert first.facts.machine_origin == "catalogue"
    assert first.facts.rated_ns > 0


def test_the_machine_that_the_user_named_wins(tmp_path: Path) -> None:
    (one,) = digests(traces(tmp_path)[:1], "H100-PCIe-80GB")
    assert (one.facts.device_name, one.facts.machine) == ("NVIDIA H100 80GB HBM3", "H100-PCIe-80GB")
    (own,) = digests(traces(tmp_path)[:1])
    bf16, pcie = own.arithmetic[0], one.arithmetic[0]
    assert (bf16.flops, pcie.flops) == (bf16.flops, bf16.flops)
    assert pcie.peak_flops_per_s < bf16.peak_flops_per_s


def test_a_profile_may_be_named(tmp_path: Path) -> None:
    peak = Figure(value=5e14, source="measured for a test", date="2026-08-01", origin=FigureSource.CALIBRATED)
    bandwidth = replace(peak, value=2e12)
    machine = Machine(name="mine", figures={"peak_flops_per_s.bf16": peak, "memory_bytes_per_s": bandwidth})
    save_profile(machine, tmp_path / "mine.json", made_by="a test")
    (one,) = digests(traces(tmp_path)[:1], str(tmp_path / "mine.json"))
    assert (one.facts.machine, one.facts.machine_origin) == ("mine", "calibrated")
    assert one.arithmetic[0].peak_flops_per_s == 5e14


def test_a_machine_that_nobody_knows_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UnknownHardwareError):
        digest_job([tmp_path / "absent.json"], "Abacus 3000", OPTIONS)


def test_a_device_that_nobody_knows_is_no_error_but_told(tmp_path: Path) -> None:
    text = document(
        [op("aten::mm", 0, 5), launch(1, 1), kernel("gemm", 10, 5, correlation=1)],
        deviceProperties=[{"id": 0, "name": "Abacus 3000", "totalGlobalMem": 1, "numSms": 2}],
    )
    (tmp_path / "trace.json").write_bytes(text)
    (one,) = digests([tmp_path / "trace.json"])
    assert (one.facts.device_name, one.facts.machine, one.facts.rated_ns) == ("Abacus 3000", "", 0)
    assert "Abacus 3000" in one.facts.why_no_machine


def test_a_trace_that_names_no_device_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(document([op("aten::mm", 0, 5)]))
    (one,) = digests([tmp_path / "trace.json"])
    assert one.facts.machine == ""
    assert "`machine=...`" in one.facts.why_no_machine


# --- traces, digests, and files that are neither ----------------------------------------------------------------------


def test_digests_and_traces_give_the_same_diagnosis(tmp_path: Path) -> None:
    paths = traces(tmp_path)
    direct = digests(paths)
    files = [tmp_path / f"rank-{rank:05d}.digest" for rank in range(SPEC.ranks)]
    for one, file in zip(direct, files, strict=True):
        save_digest(one, file, made_by="a test")
    mixed = [files[0], paths[1], files[2], paths[3]]
    expected = outline_of(combine(direct))
    for given in (files, mixed):
        found = combine(digests(given))
        assert outline_of(found) == expected
        assert found.lateness == combine(direct).lateness
        assert found.collectives == combine(direct).collectives


def test_a_file_that_cannot_be_read_is_told_beside_the_others(tmp_path: Path) -> None:
    paths = [*traces(tmp_path)[:2], tmp_path / "broken.json", tmp_path / "broken.digest"]
    for path in paths[2:]:
        path.write_bytes(b"no trace at all")
    found = digest_job(paths, None, OPTIONS)
    assert [one.origin.rank for one in found.digests] == [0, 1]
    assert [failure.path for failure in found.failures] == sorted(map(str, paths[2:]))


def test_where_nothing_can_be_read_that_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken.digest").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"broken\.digest"):
        digest_job([tmp_path / "broken.digest"], None, OPTIONS)


def test_strict_reading_ends_with_the_first_failure(tmp_path: Path) -> None:
    (tmp_path / "broken.digest").write_bytes(b"nothing")
    strict = JobOptions(jobs=1, use_cache=False, reading=ReadOptions(strict=True))
    with pytest.raises(InputError, match=r"broken\.digest"):
        digest_job([*traces(tmp_path)[:1], tmp_path / "broken.digest"], None, strict)


def test_several_processes_and_the_cache_change_nothing(tmp_path: Path) -> None:
    paths = traces(tmp_path)
    expected = outline_of(combine(digests(paths)))
    for _ in range(2):
        assert outline_of(combine(digests(paths, options=JobOptions(jobs=2, use_cache=True)))) == expected
