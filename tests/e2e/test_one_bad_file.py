"""What goes wrong with one file is an entry that names it; the others are diagnosed, merged, inspected and digested."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from redline.cli import main
from redline.errors import UnexpectedError
from redline.findings.match import match_rules
from redline.job.read_files import JobOptions
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.rank_match import RankMatch
from redline.trace.perfetto import RankEvents
from redline.verbs.diagnose import diagnose
from redline.verbs.merge import merge
from tests.support.command_line import REDLINE, environment
from tests.support.events import Event, collective, document, kernel, launch, op, region

PLANTED = "a name that no rule expects"
OF_THE_RULE = "LookupError: planted by a test"


def plant(analysis: RankAnalysis) -> tuple[RankMatch, ...]:
    """As if a rule had a bug that one trace brings out; also found by name in the workers of a pool."""
    if PLANTED in analysis.timeline.texts:
        raise LookupError("planted by a test")
    return match_rules(analysis)


def work(*more: Event) -> list[Event]:
    exchanges = [collective(ts, 40) for ts in (100.0, 200.0, 300.0)]
    return [op("aten::mm", 0, 40), launch(10, 1), kernel("gemm", 20, 60, correlation=1), *exchanges, *more]


def instant_backward() -> list[Event]:
    """Nodes of the backward pass that took no time at all, as a clock too coarse for them records them."""
    node = "autograd::engine::evaluate_function: MmBackward0"
    return work(region("ProfilerStep#1", 0, 400), *(op(node, 90 + 5 * number, 0) for number in range(3)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    folder.mkdir()
    files = {"good": work(), "instant": instant_backward(), "planted": work(op(PLANTED, 350, 1))}
    for rank, (name, events) in enumerate(files.items()):
        (folder / f"{name}.json").write_bytes(document(events, rank=rank, world_size=4))
    (folder / "unreadable.json").symlink_to("/proc/self/mem")  # opens, and fails with EIO when it is read
    return folder


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redline.verbs.diagnose.match_rules", plant)
    monkeypatch.setattr("redline.verbs.digest.match_rules", plant)


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_failure_is_an_entry_and_the_others_are_diagnosed(folder: Path, jobs: int) -> None:
    found = diagnose([folder], options=JobOptions(jobs=jobs, use_cache=False))
    assert [Path(rank.origin.source).name for rank in found.diagnosis.ranks] == ["good.json", "instant.json"]
    bug, unreadable = found.failures
    assert (Path(bug.path).name, Path(unreadable.path).name) == ("planted.json", "unreadable.json")
    assert f"planted.json: Redline failed on it: {OF_THE_RULE} (" in bug.message
    assert ", digest_of)." in bug.message  # the innermost line of ours
    assert "raise LookupError" in bug.traceback
    assert "reading it failed at byte 0 (Input/output error)" in unreadable.message


@pytest.mark.parametrize("form", ["text", "json", "md", "html"])
def test_every_report_names_them(folder: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(folder), "--format", form, "--no-cache"]) == 0
    said = capsys.readouterr()
    assert "planted.json" in said.out
    assert "LookupError" in said.out
    assert "unreadable.json" in said.out
    assert "Traceback" not in said.out + said.err
    if form == "json":
        assert [Path(one["path"]).name for one in json.loads(said.out)["failures"]] == [
            "planted.json",
            "unreadable.json",
        ]


def test_verbose_adds_the_traceback(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(folder), "--no-cache", "-v"]) == 0
    said = capsys.readouterr().err
    assert "Traceback (most recent call last):" in said
    assert OF_THE_RULE in said


def test_strict_ends_with_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "unreadable.json").unlink()
    assert main(["diagnose", str(folder), "--no-cache", "--strict"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert OF_THE_RULE in said.err


@pytest.mark.parametrize("verbose", [False, True])
def test_where_nothing_can_be_diagnosed_it_ends_with_2(
    folder: Path, capsys: pytest.CaptureFixture[str], verbose: bool
) -> None:
    assert main(["diagnose", str(folder / "planted.json"), "--no-cache", *(["-v"] if verbose else [])]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"planted.json: Redline failed on it: {OF_THE_RULE}" in said.err
    assert ("Traceback" in said.err) is verbose


def test_digest_and_inspect_name_them_too(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", str(folder), "--no-cache", "-o", str(tmp_path / "digests")]) == 0
    assert sorted(path.name for path in (tmp_path / "digests").iterdir()) == ["rank-00000.digest", "rank-00001.digest"]
    assert "planted.json: Redline failed on it" in capsys.readouterr().out
    assert main(["inspect", str(folder), "--no-cache"]) == 0
    assert "unreadable.json: reading it failed" in capsys.readouterr().out


def test_merge_leaves_out_the_file_that_it_fails_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_marks = RankEvents._memory_marks

    def failing(events: RankEvents) -> object:
        if PLANTED in events._name:
            raise LookupError("planted by a test")
        return memory_marks(events)

    monkeypatch.setattr(RankEvents, "_memory_marks", failing)
    merged = merge([folder], tmp_path / "merged.json", options=JobOptions(jobs=1, use_cache=False))
    assert merged.ranks == (0, 1)
    assert sorted(Path(failure.path).name for failure in merged.failures) == ["planted.json", "unreadable.json"]
    with pytest.raises(UnexpectedError, match=r"planted\.json: Redline failed on it"):
        merge([folder / "planted.json"], tmp_path / "alone.json", options=JobOptions(jobs=1, use_cache=False))


def test_a_drawing_that_fails_costs_the_drawing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise LookupError("planted by a test")

    monkeypatch.setattr("redline.ledger.rank.step_view.step_view_of", fails)
    found = diagnose([folder / "good.json"], options=JobOptions(use_cache=False), draw_step=True)
    assert found.step_view is None
    assert [Path(failure.path).name for failure in found.failures] == ["good.json"]


# --- what is no file --------------------------------------------------------------------------------------------------


def refused(*paths: str | Path, stdin: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REDLINE, "diagnose", "--no-cache", *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,  # opening a pipe that nobody writes to would wait for ever
        env=environment(),
        stdin=stdin,
    )


def test_pipes_sockets_and_devices_are_refused_before_they_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket.json"))
        for path, what in (
            (tmp_path / "pipe.json", "a pipe, as the shell's <(...) is"),
            (tmp_path / "socket.json", "a socket"),
            ("/dev/zero", "a device"),
        ):
            done = refused(path)
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr == f"redline: {path} is {what}; give the name of an ordinary file\n"


def test_standard_input_that_is_a_pipe_is_refused_too() -> None:
    reading, writing = os.pipe()
    done = refused("/dev/stdin", stdin=reading)
    os.close(reading)
    os.close(writing)
    assert done.returncode == 2
    assert "a pipe" in done.stderr


def test_a_pipe_among_good_files_is_a_failure_beside_them(folder: Path) -> None:
    os.mkfifo(folder / "pipe.json")
    done = refused(folder / "good.json", folder / "pipe.json")
    assert done.returncode == 0
    assert "pipe.json is a pipe" in " ".join(done.stdout.split())  # a long path breaks the line


# --- a result says of which ranks it is -------------------------------------------------------------------------------

SAYS = "This is about 1 of 4 ranks; 3 files could not be read."
SAYS_IN_CHINESE = "这里只涉及 4 个 rank 中的 1 个；有 3 个文件无法读取。"


@pytest.fixture
def mostly_unread(tmp_path: Path) -> Path:
    """One trace, three that died, and a file that is none and misses nothing."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "rank-0.json").write_bytes(document(work(), rank=0, world_size=4))
    for rank, text in enumerate((b"", b'{"schemaVersion": 1, ', b"<html>404"), start=1):
        (folder / f"rank-{rank}.json").write_bytes(text)
    (folder / "config.json").write_text('{"layers": 4}')
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diagnose", "job"], SAYS),
        (["diagnose", "job", "--lang", "zh"], SAYS_IN_CHINESE),
        (["diagnose", "job", "--format", "md"], SAYS),
        (["diagnose", "job", "--format", "html"], SAYS),
        (["diagnose", "job", "--format", "html", "--lang", "zh"], SAYS_IN_CHINESE),
        (["diagnose", "job", "--json"], SAYS),
        (["inspect", "job"], SAYS),
        (["digest", "job", "-o", "digests"], SAYS),
        (["merge", "job", "-o", "merged.json"], SAYS),
        (["compare", "job", "job"], f"before: {SAYS} after: {SAYS}"),
        (["compare", "job", "job", "--json"], f"before: {SAYS} after: {SAYS}"),
    ],
)
def test_the_first_sentence_says_of_which_ranks_it_is_and_most_unread_is_no_success(
    arguments: list[str],
    said: str,
    mostly_unread: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(mostly_unread.parent)
    assert main([*arguments, "--jobs", "1", "--no-cache"]) == 2
    captured = capsys.readouterr()
    assert said in " ".join(captured.out.split())
    assert "redline: 3 of 4 files could not be read: what is said is about the others" in captured.err


def test_half_unread_is_said_and_a_file_of_another_kind_is_not_counted(
    mostly_unread: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside whole JSON that is no trace, as models and trainers leave it, nothing is missing."""
    (mostly_unread / "rank-1.json").write_bytes(document(work(), rank=1, world_size=4))
    assert main(["diagnose", str(mostly_unread), "--jobs", "1", "--no-cache"]) == 0
    assert "This is about 2 of 4 ranks; 2 files could not be read." in " ".join(capsys.readouterr().out.split())
    for rank in (2, 3):
        (mostly_unread / f"rank-{rank}.json").unlink()
    for number in range(3):
        (mostly_unread / f"other-{number}.json").write_text('{"of": "a trainer"}')
    assert main(["diagnose", str(mostly_unread), "--jobs", "1", "--no-cache"]) == 0
    captured = capsys.readouterr()
    assert "could not be read" not in captured.out + captured.err
    assert "config.json" in captured.out
