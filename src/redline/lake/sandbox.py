"""SQL over the rows of a lake, by a DuckDB that can do nothing else: no files, no network, no extensions, no writing.

pyarrow reads the files, and DuckDB sees columns. Its own access to files is off, and its settings are locked, before it
is given any SQL; of that, one SELECT is run, and ended where it takes too long.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any

from redline.errors import InputError, UsageError
from redline.lake.extra import duckdb, pyarrow
from redline.lake.parts import LakePart, damaged_part, has_doubles, scanned
from redline.lake.questions import AnswerColumn, LakeAnswer, plain_value
from redline.lake.schema import NAMES

MOST_ROWS = 100_000  # of an answer
MOST_SECONDS = 60.0
_SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # variables of this process are no tables
    "memory_limit": "2GB",
    "enable_progress_bar": "false",  # it would be drawn on stdout
}
_AT_START = {"temp_directory": ""}  # nothing is spilled to disk; what has no access to files may not be told so later
_NEWEST = "QUALIFY row_number() OVER (PARTITION BY digest_id ORDER BY added_ns DESC) = 1"
_UNNESTED = "job, team, model, cluster, rank, node, device, start_ns, end_ns, gpu_hours, in_steps_ns"
_VIEWS = {
    "findings": f"SELECT {_UNNESTED}, unnest(findings, recursive := true) FROM digests",
    "operators": f"SELECT {_UNNESTED}, unnest(operators, recursive := true) FROM digests",
}
TABLES = ("digests", *_VIEWS)


class Sandbox:
    """The tables `digests`, `findings` and `operators`, to be asked."""

    def __init__(self, connection: Any, parts: Sequence[LakePart]) -> None:
        self._connection = connection
        self._parts = parts

    def ask(self, sql: str, parameters: Mapping[str, object] | None = None) -> LakeAnswer:
        """UsageError where it is no SELECT, cannot be understood, or asks for more than it may."""
        self._refuse_unless_select(sql)
        with self._limited(MOST_SECONDS):
            try:
                cursor = self._connection.execute(sql, dict(parameters or {}))
                described = cursor.description or ()
                rows = cursor.fetchmany(MOST_ROWS + 1)
            except duckdb().InterruptException as error:
                raise UsageError(
                    f"lake ask: the SQL took more than {MOST_SECONDS:.0f} s; ask for less of it"
                ) from error
            except FileNotFoundError:
                raise
            except (duckdb().Error, pyarrow().ArrowException, OSError, ValueError, RuntimeError) as error:
                raise self._failure(error) from error
        columns = tuple(AnswerColumn(name=str(column[0])) for column in described)
        values = tuple(tuple(map(plain_value, row)) for row in rows[:MOST_ROWS])
        return LakeAnswer(columns=columns, rows=values, cut=len(rows) > MOST_ROWS)

    def _refuse_unless_select(self, sql: str) -> None:
        try:
            statements = self._connection.extract_statements(sql)
        except duckdb().Error as error:
            raise UsageError(f"lake ask: {_reason(error)}") from error
        if len(statements) != 1 or statements[0].type != duckdb().StatementType.SELECT:
            raise UsageError(f"lake ask: give one SELECT; tables are {', '.join(TABLES)}")

    def _failure(self, error: Exception) -> Exception:
        if "No such file" in str(error):  # merged or pruned since it was listed
            return FileNotFoundError(str(error))
        if "does not exist" not in str(error):
            blamed = damaged_part(self._parts)
            if blamed is not None:
                return blamed
        return UsageError(f"lake ask: {_reason(error)}")

    @contextmanager
    def _limited(self, seconds: float) -> Iterator[None]:
        timer = Timer(seconds, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _reason(error: BaseException) -> str:
    """The first line of what DuckDB says, and its hint, unless it is to change settings, which are locked."""
    said, _, _ = str(error).partition("Possible solutions:")
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    return " ".join(lines[:2])[:400] or type(error).__name__


@contextmanager
def sandbox(parts: Sequence[LakePart]) -> Iterator[Sandbox]:
    """Over these parts, as they are now; FileNotFoundError where one was merged into another since."""
    connection = duckdb().connect(":memory:", config=_AT_START)
    try:
        _register(connection, parts)
        for name, value in _SETTINGS.items():
            connection.execute(f"SET {name} = '{value}'")
        connection.execute("SET lock_configuration = true")
        yield Sandbox(connection, parts)
    finally:
        connection.close()


def _register(connection: Any, parts: Sequence[LakePart]) -> None:
    try:
        rows = scanned(parts)
        doubles = has_doubles(rows)
    except (pyarrow().ArrowException, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise damaged_part(parts) or InputError(f"the lake cannot be read: {error}") from error
    name = "rows_with_doubles" if doubles else "digests"
    connection.register(name, rows)
    if doubles:
        connection.execute(f"CREATE VIEW digests AS SELECT {', '.join(NAMES)} FROM {name} {_NEWEST}")
    for view, sql in _VIEWS.items():
        connection.execute(f"CREATE VIEW {view} AS {sql}")
