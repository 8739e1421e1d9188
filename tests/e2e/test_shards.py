"""`redline digest --shard`: all parts of a job together leave what one command does, byte by byte."""

from pathlib import Path

import pytest

from redline.cli import main
from tests.support.events import document, op
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

RANKS = 5


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    late = Straggler(rank=3, extra_us=2000, where="host")
    write_job(JobSpec(ranks=RANKS, steps=2, layers=1, stragglers=(late,)), folder)
    return folder


def digest(traces: Path, output: Path, *options: str) -> None:
    assert main(["digest", str(traces), "-o", str(output), "--no-cache", "--quiet", *options]) == 0


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("parts", [2, 7])
def test_all_parts_leave_what_one_command_leaves(traces: Path, tmp_path: Path, parts: int) -> None:
    digest(traces, tmp_path / "one")
    for part in range(parts):
        digest(traces, tmp_path / "parts", "--shard", f"{part}/{parts}")
    assert contents(tmp_path / "parts") == contents(tmp_path / "one")
    assert len(contents(tmp_path / "one")) == RANKS


def test_a_part_of_an_array_is_told_by_its_environment(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    digest(traces, tmp_path / "part", "--shard", "auto")
    assert sorted(contents(tmp_path / "part")) == ["rank-00001.digest", "rank-00003.digest"]


def test_more_parts_than_traces_leave_some_with_nothing(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest(traces, tmp_path / "part", "--shard", "6/7")
    assert "nothing to write to" in capsys.readouterr().out
    assert not (tmp_path / "part").exists()


def write_traces(folder: Path, *ranks: int | None) -> Path:
    """Traces of these ranks, in this order of files; None: nothing says which."""
    folder.mkdir()
    for number, rank in enumerate(ranks):
        (folder / f"trace-{number}.json").write_bytes(document([op("aten::mm", 0, 5 + number)], rank=rank))
    return folder


def test_traces_whose_rank_is_not_known_are_named_by_their_place(tmp_path: Path) -> None:
    traces = write_traces(tmp_path / "job", None, 0, None, 5)
    digest(traces, tmp_path / "one")
    for part in range(3):
        digest(traces, tmp_path / "parts", "--shard", f"{part}/3")
    assert contents(tmp_path / "parts") == contents(tmp_path / "one")
    assert sorted(contents(tmp_path / "one")) == [
        "rank-00000.digest",
        "rank-00005.digest",
        "trace-00000.digest",
        "trace-00002.digest",
    ]


@pytest.mark.parametrize("parts", [["0/1"], ["0/2", "1/2"]])
def test_a_rank_that_is_claimed_twice_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: list[str]
) -> None:
    """Within a part, and by the digest that another part has left; one command for all names both by their place."""
    traces = write_traces(tmp_path / "job", 4, 4)
    command = ["digest", str(traces), "-o", str(tmp_path / "parts"), "--no-cache", "--force", "--shard"]
    codes = [main([*command, part]) for part in parts]
    assert codes == [0] * (len(parts) - 1) + [2]
    assert "rank 4 is claimed by" in capsys.readouterr().err
    digest(traces, tmp_path / "one")
    assert sorted(contents(tmp_path / "one")) == ["trace-00000.digest", "trace-00001.digest"]


def test_a_part_can_be_made_anew_only_with_force(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest(traces, tmp_path / "part", "--shard", "0/2")
    before = contents(tmp_path / "part")
    again = ["digest", str(traces), "-o", str(tmp_path / "part"), "--no-cache", "--shard", "0/2"]
    assert main(again) == 2
    assert "already exists; use --force" in capsys.readouterr().err
    assert main([*again, "--force"]) == 0
    assert contents(tmp_path / "part") == before


def test_redacting_a_part_is_refused(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", str(traces), "-o", str(tmp_path / "part"), "--redact", "--shard", "0/2"]) == 2
    assert "each part of a job would give the same host another mark; leave --redact out" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_costs_its_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = write_traces(tmp_path / "job", 0, 1, None, 3)
    (traces / "trace-1.json").write_bytes(b"rubbish")
    digest(traces, tmp_path / "one")
    assert "trace-1.json: " in capsys.readouterr().out
    for part in (0, 1):
        digest(traces, tmp_path / "parts", "--shard", f"{part}/2")
    assert capsys.readouterr().out.count("unread: ") == 1
    assert contents(tmp_path / "parts") == contents(tmp_path / "one")
    assert sorted(contents(tmp_path / "one")) == ["rank-00000.digest", "rank-00003.digest", "trace-00002.digest"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--address", "10.0.0.1:6379"], "--address is that of a Ray cluster, and goes with --executor ray"),
        (["--executor", "dask"], "dask"),
    ],
)
def test_executors_that_make_no_sense_are_refused(
    traces: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["diagnose", str(traces), *options]) == 2
    assert message in capsys.readouterr().err
