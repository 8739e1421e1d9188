"""Digests go into the lake once, whole, with what the diagnosis says of them, and come out as answers."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

import pyarrow.parquet as pq  # noqa: E402

from bench.fleet.lake import killed_writers, two_writers  # noqa: E402
from bench.fleet.made_lake import JobOnNodes, job_rows  # noqa: E402
from redline.errors import InputError, UsageError  # noqa: E402
from redline.lake import parts as parts_module  # noqa: E402
from redline.lake.parts import (  # noqa: E402  # noqa: E402
    LakePart,
    compact,
    compact_all,
    parts_of,
    read_part,
    remove_abandoned,
    write_part,
)
from redline.lake.questions import QUESTIONS  # noqa: E402
from redline.lake.rows import JobLabels  # noqa: E402
from redline.lake.schema import ACCOUNT_COLUMNS, arrow_schema  # noqa: E402
from redline.verbs.diagnose import diagnose  # noqa: E402
from redline.verbs.lake import add_to_lake, ask_lake, prune_lake  # noqa: E402

DAY_NS = 86_400_000_000_000
COUNTS = "SELECT count(*), count(DISTINCT rank), count(DISTINCT job) FROM digests"


def numbers(values: tuple[object, ...]) -> list[float]:
    return [value for value in values if isinstance(value, int | float)]


def rows(lake: Path, sql: str) -> tuple[tuple[object, ...], ...]:
    return ask_lake(lake, sql=sql).answer.rows


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_rows_say_what_the_diagnosis_says(job_digests: Path, lake_of_one: Path) -> None:
    diagnosis = diagnose(job_digests).diagnosis
    (part,) = parts_of(lake_of_one)
    table = read_part(part)
    assert table.schema == arrow_schema()
    for row, rank in zip(table.to_pylist(), diagnosis.ranks, strict=True):
        assert row["rank"] == rank.origin.rank
        assert [row[name] for name in ACCOUNT_COLUMNS] == rank.ledger.steps.sum(axis=0).tolist()
        assert row["in_steps_ns"] == sum(row[name] for name in ACCOUNT_COLUMNS)
        assert row["end_ns"] - row["start_ns"] == rank.window_ns[1] - rank.window_ns[0]
        assert (row["job"], row["team"], row["gpu_hours"], row["hours_from"]) == ("run-7", "vision", 2.0, "stated")
        assert row["synthetic"] is True
    assert diagnosis.lateness is not None
    late = {late_rank.rank: late_rank.caused_ns for late_rank in diagnosis.lateness.ranks}
    assert dict(zip(table["rank"].to_pylist(), table["caused_ns"].to_pylist(), strict=True)) == {
        rank: late.get(rank, 0) for rank in range(4)
    }
    assert max(late, key=lambda rank: late[rank]) == 3


def test_findings_gain_what_the_diagnosis_says(job_digests: Path, lake_of_one: Path) -> None:
    findings = diagnose(job_digests).findings.findings
    assert findings
    answer = ask_lake(lake_of_one, "findings", price=2.5).answer
    gained = dict(zip(answer.column("code"), answer.column("gain_hours"), strict=True))
    assert gained == pytest.approx({finding.code: 8.0 * finding.alone_share for finding in findings}, rel=1e-6)
    assert answer.column("money") == pytest.approx([2.5 * hours for hours in numbers(tuple(gained.values()))])


def test_hours_in_accounts_add_up_to_all_hours(lake_of_one: Path) -> None:
    answer = ask_lake(lake_of_one, "accounts", top=12).answer
    assert sum(numbers(answer.column("gpu_hours"))) == pytest.approx(8.0)
    assert sum(numbers(answer.column("share"))) == pytest.approx(1.0)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("form", ["text", "json", "csv", "html"])
def test_every_question_has_an_answer_in_every_form(question: str, form: str, lake_of_one: Path) -> None:
    result = ask_lake(lake_of_one, question, job="run-7", price=2.5)
    assert question in ("nodes", "changes") or result.answer.rows
    assert "run-7" in result.rendered(form) or question not in ("jobs", "like")


def test_windows_without_stated_hours_stand_for_themselves(job_digests: Path, tmp_path: Path) -> None:
    add_to_lake([job_digests], tmp_path / "lake")
    sql = "SELECT hours_from, max(abs(gpu_hours - (end_ns - start_ns) / 3.6e12)) < 1e-12 FROM digests GROUP BY ALL"
    assert rows(tmp_path / "lake", sql) == (("window", True),)


# --- once -------------------------------------------------------------------------------------------------------------


def test_added_again_it_counts_once_with_the_later_labels(job_digests: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    add_to_lake([job_digests], lake, labels=JobLabels(team="old"))
    add_to_lake([job_digests], lake, labels=JobLabels(team="new"))
    assert rows(lake, "SELECT team, count(*) FROM digests GROUP BY team") == (("new", 4),)
    assert len(parts_of(lake)) == 1


def test_a_digest_in_two_files_counts_once(job_digests: Path, tmp_path: Path) -> None:
    """Some of the ranks come again with others, as when nodes add what they have; or a merge was cut short."""
    lake = tmp_path / "lake"
    files = sorted(job_digests.iterdir())
    add_to_lake(files[:3], lake, labels=JobLabels(job="a"))
    add_to_lake(files[1:], lake, labels=JobLabels(job="a"))
    assert len(parts_of(lake)) == 2
    assert rows(lake, COUNTS) == ((4, 4, 1),)
    copied = parts_of(lake)[0].path
    shutil.copy(copied, copied.with_name(copied.name.replace(copied.name[37:45], "00000000")))
    assert rows(lake, COUNTS) == ((4, 4, 1),)
    compact_all(lake)
    assert len(parts_of(lake)) == 1
    assert rows(lake, COUNTS) == ((4, 4, 1),)


def made(number: int, template: object, window: int = 0) -> object:
    job = JobOnNodes(number=number, node=pa.array([0, 1, 2, 3]).to_numpy(), caused_ns=pa.array([0] * 4).to_numpy())
    return job_rows(template, job, added_ns=1_795_000_000_000_000_000 + number, window=window)


def test_small_files_of_a_day_are_merged(lake_of_one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "MOST_PARTS", 5)
    template = read_part(parts_of(lake_of_one)[0])
    for number in range(12):
        write_part(tmp_path, made(number, template), made_by="a test")
        compact(tmp_path)
    assert len(parts_of(tmp_path)) <= 6
    assert rows(tmp_path, "SELECT count(*), count(DISTINCT job) FROM digests") == ((48, 12),)


def test_a_part_that_vanished_since_it_was_listed_costs_no_answer(
    lake_of_one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when another merges parts between the listing and the reading."""
    from redline.lake import asking

    template = read_part(parts_of(lake_of_one)[0])
    for number in range(2):
        write_part(tmp_path, made(number, template), made_by="a test")
    stale = parts_of(tmp_path)
    compact_all(tmp_path)
    listings = iter([stale, parts_of(tmp_path)])
    monkeypatch.setattr(asking, "parts_of", lambda lake: next(listings))
    assert rows(tmp_path, "SELECT count(*) FROM digests") == ((8,),)


@pytest.mark.slow  # CI has writers, readers and merges at once in test_lake_at_once.py
def test_two_writers_at_once(tmp_path: Path) -> None:
    assert two_writers(tmp_path / "lake", windows=4).endswith("all there, each once")


def test_writers_that_are_killed(tmp_path: Path) -> None:
    assert killed_writers(tmp_path / "lake", 2).startswith("kills: 2 writers killed")


@pytest.mark.slow
def test_many_writers_that_are_killed(tmp_path: Path) -> None:
    killed_writers(tmp_path / "lake", 20)


def test_what_a_killed_writer_left_goes_after_a_day(lake_of_one: Path, tmp_path: Path) -> None:
    shutil.copytree(lake_of_one, tmp_path / "lake")
    (folder,) = (tmp_path / "lake").iterdir()
    part = folder / "0-1.v2.parquet.0a1b2c3d.part"
    part.write_bytes(b"PAR1")
    assert rows(tmp_path / "lake", "SELECT count(*) FROM digests") == ((4,),)
    assert remove_abandoned(tmp_path / "lake", part.stat().st_mtime + 80_000) == 0
    assert remove_abandoned(tmp_path / "lake", part.stat().st_mtime + 90_000) == 1
    assert not part.exists()


# --- schemas ----------------------------------------------------------------------------------------------------------


def first_schema(table: object) -> object:
    """The rows of a table as a Redline of schema 1 would have written them."""
    gone = ("team", "model", "cluster", "gpu_hours", "hours_from", "operators")
    codes = [[finding["code"] for finding in found] for found in table["findings"].to_pylist()]  # type: ignore[index]
    kept = table.drop_columns([*gone, "findings"])  # type: ignore[attr-defined]
    return kept.append_column("findings", pa.array(codes, pa.list_(pa.string())))


def test_files_of_the_first_schema_are_read_and_migrated(lake_of_one: Path, tmp_path: Path) -> None:
    (part,) = parts_of(lake_of_one)
    old = first_schema(read_part(part))
    folder = tmp_path / "lake" / part.path.parent.name
    folder.mkdir(parents=True)
    pq.write_table(old, folder / part.path.name.replace(".v2.", ".v1."))
    template = read_part(part)
    write_part(tmp_path / "lake", made(3, template), made_by="a test")
    for merged in (False, True):
        sql = (
            "SELECT job, count(*), any_value(hours_from), sum(len(findings)) > 0 FROM digests GROUP BY job ORDER BY job"
        )
        assert rows(tmp_path / "lake", sql) == (("job-000003", 4, "stated", True), ("run-7", 4, "window", True)), merged
        assert ask_lake(tmp_path / "lake", "findings").answer.rows
        assert ask_lake(tmp_path / "lake", "operators").answer.rows
        compact_all(tmp_path / "lake")
    assert {part.schema_version for part in parts_of(tmp_path / "lake")} == {2}


def test_a_file_of_the_first_schema_with_other_types_is_named(lake_of_one: Path, tmp_path: Path) -> None:
    (part,) = parts_of(lake_of_one)
    old = first_schema(read_part(part)).drop_columns(["findings"])  # type: ignore[attr-defined]
    folder = tmp_path / part.path.parent.name
    folder.mkdir()
    path = folder / part.path.name.replace(".v2.", ".v1.")
    pq.write_table(old.append_column("findings", pa.array([True] * len(old))), path)
    with pytest.raises(InputError, match=re.escape(str(path))):
        read_part(replace(part, path=path, schema_version=1))


def test_a_file_of_a_newer_schema_is_refused(lake_of_one: Path, tmp_path: Path) -> None:
    (part,) = parts_of(lake_of_one)
    folder = tmp_path / part.path.parent.name
    folder.mkdir()
    shutil.copy(part.path, folder / part.path.name.replace(".v2.", ".v3."))
    with pytest.raises(InputError, match=r"is of schema 3; this is Redline .*, which reads up to schema 2: upgrade it"):
        ask_lake(tmp_path, "accounts")
    assert compact_all(tmp_path) == 0


def test_a_damaged_file_is_named(lake_of_one: Path, tmp_path: Path) -> None:
    shutil.copytree(lake_of_one, tmp_path / "lake")
    (part,) = parts_of(tmp_path / "lake")
    whole = part.path.read_bytes()
    for damage in (whole[:1000], b"", b"x" * len(whole), whole[:200] + bytes(400) + whole[600:]):
        part.path.write_bytes(damage)
        with pytest.raises(InputError, match=r"\.v2\.parquet: damaged, or not of a lake"):
            ask_lake(tmp_path / "lake", sql="SELECT * FROM digests")


# --- retention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["digest_id", "added_ns", "end_ns"])
def test_a_part_in_which_numbers_are_missing_is_named_and_left_alone(
    name: str, lake_of_one: Path, tmp_path: Path
) -> None:
    part = _changed(lake_of_one, tmp_path, lambda table: _with(table, name, pa.nulls(len(table), pa.int64())))
    with pytest.raises(InputError, match=r"damaged, or not of a lake \(a row without digest_id, "):
        read_part(part)
    assert compact_all(tmp_path / "lake") == 0
    assert part.path.exists()


def test_a_part_of_other_types_is_named(lake_of_one: Path, tmp_path: Path) -> None:
    def widened(table: Any) -> Any:
        return _with(table, "digest_id", pa.array([Decimal(2**100)] * len(table), pa.decimal128(38)))

    _changed(lake_of_one, tmp_path, widened)
    with pytest.raises(InputError, match="damaged, or not of a lake"):
        ask_lake(tmp_path / "lake", "accounts")


def test_a_part_that_claims_more_rows_than_it_can_hold_is_refused(lake_of_one: Path, tmp_path: Path) -> None:
    part = _changed(lake_of_one, tmp_path, lambda table: table.take([0] * 1_000_000))
    assert part.path.stat().st_size < 8_000_000
    with pytest.raises(InputError, match=r"damaged, or not of a lake \(it claims to have 1,000,000 rows\)"):
        ask_lake(tmp_path / "lake", "accounts")
    with pytest.raises(InputError, match="it claims to have 1,000,000 rows"):
        read_part(part)


def test_a_folder_of_a_day_that_never_was_is_none(lake_of_one: Path, tmp_path: Path) -> None:
    part = parts_of(lake_of_one)[0].path
    for day in ("day=2026-99-99", part.parent.name):
        (tmp_path / day).mkdir()
        shutil.copy(part, tmp_path / day)
    assert [found.day for found in parts_of(tmp_path)] == [part.parent.name.removeprefix("day=")]
    ask_lake(tmp_path, "like", job="run-7", days=7)


def test_a_job_whose_name_is_a_number_beyond_all_numbers_is_shown(job_digests: Path, tmp_path: Path) -> None:
    add_to_lake([job_digests], tmp_path / "lake", labels=JobLabels(job="1e999"))
    assert "1e999" in ask_lake(tmp_path / "lake", "jobs").rendered("html")


def _changed(lake: Path, folder: Path, change: Callable[[Any], Any]) -> LakePart:
    """The part of a lake that somebody else has written."""
    part = parts_of(lake)[0].path
    path = folder / "lake" / part.parent.name / part.name
    path.parent.mkdir(parents=True)
    pq.write_table(change(pq.read_table(part, partitioning=None)), path)
    return parts_of(folder / "lake")[0]


def _with(table: Any, name: str, values: Any) -> Any:
    return table.set_column(table.column_names.index(name), name, values)


def test_whole_days_are_pruned(lake_of_one: Path, tmp_path: Path) -> None:
    template = read_part(parts_of(lake_of_one)[0])
    for number in (0, 500, 999):  # over four weeks
        write_part(tmp_path, made(number, template), made_by="a test")
    first, _, last = (part.day for part in parts_of(tmp_path))
    today = datetime.fromisoformat(last).replace(tzinfo=UTC)
    pruned = prune_lake(tmp_path, 20, today=today)
    assert (pruned.days, pruned.digests) == (1, 4)
    assert not (tmp_path / f"day={first}").exists()
    assert rows(tmp_path, "SELECT count(DISTINCT job) FROM digests") == ((2,),)
    assert ask_lake(tmp_path, "jobs", days=1).jobs == 1
    with pytest.raises(InputError, match="no lake in this folder, so there is nothing to prune"):
        prune_lake(tmp_path / "none", 20)


# --- what cannot be asked or added ------------------------------------------------------------------------------------


def test_messages_of_add(job_digests: Path, tmp_path: Path) -> None:
    other = tmp_path / "run-8"
    other.mkdir()
    (first, *_) = sorted(job_digests.iterdir())
    shutil.copy(first, other / first.name)
    (tmp_path / "file").write_text("x")
    for paths, labels, error, said in (
        ([], JobLabels(), UsageError, "no digest was named"),
        ([tmp_path / "no*such"], JobLabels(), InputError, "as a pattern it matches nothing"),
        ([tmp_path / "empty"], JobLabels(), InputError, "no digest in this folder"),
        ([tmp_path / "file"], JobLabels(), InputError, "file is no digest; make digests"),
        ([job_digests, other], JobLabels(), UsageError, "the digests are in 2 folders .*, which may be several jobs"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(error, match=said):
            add_to_lake(paths, tmp_path / "lake", labels=labels)
    with pytest.raises(UsageError, match="is not a number of hours above 0"):
        JobLabels(hours=0)


def test_messages_of_ask(lake_of_one: Path, tmp_path: Path) -> None:
    for arguments, said in (
        ({}, "give the name of a question, or `sql=...`; one of them"),
        ({"question": "team"}, "there is no question 'team'; did you mean 'teams'?"),
        ({"question": "xyz"}, "there is no question 'xyz'; there are: accounts, teams"),
        ({"question": "like"}, "the question 'like' needs `job=...`"),
        ({"question": "like", "job": "run-8"}, "there is no job 'run-8' in this lake; did you mean 'run-7'?"),
        ({"question": "like", "job": "xyz"}, "`redline lake ask jobs` lists them"),
        ({"sql": "SELECT nothing FROM digests"}, "nothing"),
        ({"sql": "SELEC 1"}, "syntax error"),
    ):
        with pytest.raises(UsageError) as refused:
            ask_lake(lake_of_one, **arguments)  # type: ignore[arg-type]
        assert said in str(refused.value)
        assert str(refused.value).count("\n") <= 1
    with pytest.raises(InputError, match="no lake in this folder; add digests to it first"):
        ask_lake(tmp_path, "accounts")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be read as a lake"):
        ask_lake(tmp_path / "file", "accounts")
