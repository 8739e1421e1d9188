"""Writers, merges, retention and readers of one lake at once: no row is missed, none counts twice, nobody fails."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

from bench.fleet.made_lake import JobOnNodes, job_rows  # noqa: E402
from redline.errors import InputError  # noqa: E402
from redline.lake.asking import ask_here  # noqa: E402
from redline.lake.parts import (  # noqa: E402
    compact_all,
    parts_of,
    prune,
    read_part,
    write_part,
)

DAY_NS = 86_400_000_000_000
RANKS = 4
JOBS = 25


def made(template: Any, number: int, days_ago: int) -> Any:
    job = JobOnNodes(number=number, node=np.arange(RANKS), caused_ns=np.zeros(RANKS, np.int64))
    rows = job_rows(template, job, added_ns=1_795_000_000_000_000_000 + number)
    for name in ("start_ns", "end_ns"):
        earlier = pa.array(rows[name].to_numpy() - days_ago * DAY_NS)
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), earlier)
    return rows


def test_writers_merges_retention_and_readers_at_once(  # noqa: C901 (five at once)
    lake_of_one: Path, tmp_path: Path
) -> None:
    template, lake = read_part(parts_of(lake_of_one)[0]), tmp_path / "lake"
    first = made(template, 0, 0)
    first_ns = min(first["end_ns"].to_pylist())
    today = datetime.fromtimestamp(first_ns / 1e9, UTC)
    recent = f"SELECT count(*) FROM digests WHERE end_ns >= {first_ns - DAY_NS}"
    write_part(lake, first, made_by="a test")
    written, failed = [1], list[BaseException]()
    ended = threading.Event()

    def add_recent() -> None:
        for number in range(1, JOBS):
            write_part(lake, made(template, number, 0), made_by="a test")
            written[0] = number + 1

    def add_old() -> None:
        for number in range(1000, 1000 + JOBS):
            write_part(lake, made(template, number, 30), made_by="a test")

    def until_the_end(step: Callable[[], object]) -> Callable[[], None]:
        def repeated() -> None:
            while not ended.wait(0.05):
                step()

        return repeated

    def noting(task: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                task()
            except BaseException as error:  # noqa: BLE001 (told by the test)
                failed.append(error)

        return run

    adding = [threading.Thread(target=noting(task)) for task in (add_recent, add_old)]
    keeping = [
        threading.Thread(target=noting(until_the_end(step)))
        for step in (lambda: compact_all(lake), lambda: prune(lake, 7, today))
    ]
    for thread in (*adding, *keeping):
        thread.start()
    asked = 0
    while any(thread.is_alive() for thread in adding) or asked < 5:
        least = written[0]
        try:
            ((rows,),) = ask_here(lake, None, recent, parameters={}, days=None).answer.rows
        except InputError as error:  # on a busy machine: it rightly says that it cannot keep up
            if "changes faster than it can be read" not in str(error):
                raise
            continue
        asked += 1
        assert RANKS * least <= int(str(rows)) <= RANKS * (written[0] + 1)
    ended.set()
    for thread in (*adding, *keeping):
        thread.join()
    assert failed == []
    prune(lake, 7, today)
    ((rows,),) = ask_here(lake, None, "SELECT count(*) FROM digests", parameters={}, days=None).answer.rows
    assert int(str(rows)) == RANKS * JOBS
