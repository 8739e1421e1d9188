"""SQL of a stranger reads the lake and does nothing else: no files, no writing, no extensions, no end of time."""

import resource
from pathlib import Path

import pytest

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from redline.errors import UsageError  # noqa: E402
from redline.lake import sql_process  # noqa: E402
from redline.lake.asking import ask_here  # noqa: E402
from redline.lake.parts import parts_of  # noqa: E402
from redline.lake.sandbox import MOST_ROWS, sandbox  # noqa: E402
from redline.verbs.lake import ask_lake  # noqa: E402

SECRET_TABLE = "a table of this process"  # a variable, which DuckDB would otherwise find by its name
READING = (
    "SELECT * FROM '{file}'",
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM read_parquet('{part}')",
    "SELECT * FROM parquet_metadata('{part}')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM read_csv('https://localhost/x.csv')",
    "SELECT * FROM query('COPY digests TO ''{folder}/out''')",
    "SELECT * FROM SECRET_TABLE",
    "SELECT getenv('HOME')",
    "SELECT * FROM sqlite_scan('{folder}/x.db', 't')",
    "SELECT * FROM digests WHERE job = (SELECT content FROM read_text('{file}'))",
)
NO_SELECT = (
    "COPY digests TO '{folder}/out.csv'",
    "COPY (SELECT 1) TO '{part}'",
    "ATTACH '{folder}/x.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "EXPORT DATABASE '{folder}/out'",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "PRAGMA enable_external_access = true",
    "CREATE TABLE other AS SELECT 1",
    "DROP VIEW digests",
    "CREATE PERSISTENT SECRET s (TYPE s3)",
    "CALL pragma_version()",
    "SELECT 1; COPY digests TO '{folder}/out.csv'",
    "WITH x AS (SELECT 1) INSERT INTO digests SELECT * FROM x",
    "",
)


def filled(sql: str, folder: Path, lake: Path) -> str:
    (folder / "file.csv").write_text("secret\n1\n")
    return sql.format(file=folder / "file.csv", folder=folder, part=parts_of(lake)[0].path)


@pytest.mark.parametrize("sql", READING + NO_SELECT)
def test_nothing_but_the_lake_is_read_and_nothing_is_written(sql: str, lake_of_one: Path, tmp_path: Path) -> None:
    part = parts_of(lake_of_one)[0].path.read_bytes()
    with pytest.raises(UsageError, match="lake ask: "):
        ask_here(lake_of_one, None, filled(sql, tmp_path, lake_of_one), parameters={}, days=None)
    assert [path.name for path in tmp_path.iterdir()] == ["file.csv"]
    assert parts_of(lake_of_one)[0].path.read_bytes() == part


@pytest.mark.parametrize("sql", NO_SELECT[:10])
def test_duckdb_itself_refuses_what_gets_past_the_look_at_the_statement(
    sql: str, lake_of_one: Path, tmp_path: Path
) -> None:
    """The second of two walls: settings that are locked before any SQL is run."""
    wanted = filled(sql, tmp_path, lake_of_one)
    with sandbox(parts_of(lake_of_one)) as tables, pytest.raises(duckdb.Error):
        tables._connection.execute(wanted)
        assert wanted.startswith("CREATE TABLE")  # in memory, and gone with it
        raise duckdb.Error("nothing was written")
    assert [path.name for path in tmp_path.iterdir()] == ["file.csv"]


def test_sql_without_end_is_ended(lake_of_one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_process, "MOST_SECONDS", 2)
    with pytest.raises(UsageError, match="took more than 2 s"):
        ask_lake(lake_of_one, sql="SELECT sum(range) FROM range(100000000000000)")


@pytest.mark.parametrize("sql", ["SELECT list(range) FROM range(100000000)", "SELECT range(50000000) FROM range(10)"])
def test_one_value_that_is_larger_than_any_memory_is_ended(sql: str, lake_of_one: Path) -> None:
    """Between two looks at its limits, DuckDB fills a list, and Python takes it over: neither can be interrupted."""
    with pytest.raises(UsageError, match=r"lake ask: (the SQL needs more than 3 GiB|Out of Memory|.*[Aa]lloc)") as said:
        ask_lake(lake_of_one, sql=sql)
    assert "Possible solutions" not in str(said.value)  # settings, which are locked
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10 < 1.1 * sql_process.MOST_BYTES


def test_an_answer_that_would_fill_the_memory_of_the_one_who_asked_is_not_sent(lake_of_one: Path) -> None:
    with pytest.raises(UsageError, match="the answer is above 64 MiB; ask for less"):
        ask_lake(lake_of_one, sql="SELECT repeat('x', 100000000)")


def test_an_answer_has_an_end(lake_of_one: Path) -> None:
    result = ask_lake(lake_of_one, sql="SELECT * FROM range(1000000000)")
    assert len(result.answer.rows) == MOST_ROWS
    assert result.answer.cut


def test_values_of_any_type_can_be_shown(lake_of_one: Path) -> None:
    sql = (
        "SELECT 1e400, 'NaN'::DOUBLE, 1.5::DECIMAL(4, 1), DATE '2026-01-01', TIMESTAMP '2026-01-01', INTERVAL 1 DAY, "
        "[1, 2], {'a': 1}, 'a'::BLOB, true, NULL, 170141183460469231731687303715884105727::HUGEINT, uuid(), '=1+1'"
    )
    result = ask_lake(lake_of_one, sql=sql)
    for form in ("text", "json", "csv", "html"):
        assert "2026-01-01" in result.rendered(form)
    assert "'=1+1" in result.rendered("csv")
