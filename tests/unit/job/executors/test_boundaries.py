"""Whatever crosses the boundary of a process pickles, by its type: paths and work there, results and errors back."""

import ast
import enum
import inspect
import pickle
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import redline
from redline import errors
from redline.findings.match import match_rules
from redline.findings.replay_job import ReplayWork
from redline.job import job as summaries
from redline.job.executors.executor import WorkerDied
from redline.job.executors.ray_tasks import NotDone
from redline.job.read_failures import Failure
from redline.job.read_files import JobOptions
from redline.lake.asking import AskedLake
from redline.ledger.job.digests import digest_job
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.digest_file import decoded, encoded_whole
from redline.ledger.rank.file_digests import Digester, ReopenedRanks
from redline.model.served_model import ServedModel
from redline.trace.batch_columns import Packed
from redline.trace.reader import OfFile, ReadOptions
from tests.support.traces.synthetic import JobSpec, write_job

SOURCES = Path(redline.__file__).parent
PASSED_TO_PROCESSES = {
    ("job/job.py", "gather"),
    ("ledger/job/digests.py", "gather"),
    ("job/read_files.py", "over_files"),
    ("trace/decode_worker.py", "pickle.dumps"),
    ("lake/sql_process.py", "pickle.dumps"),
}
"""Where work is given to other processes, or their results are packed: the types below are those of these."""
CROSSING = (
    *(OfFile, Digest, Digester, ReopenedRanks, ReplayWork, ReadOptions, Failure, NotDone, Packed, AskedLake),
    typing.get_type_hints(summaries._summarised)["return"],
    typing.get_type_hints(ReplayWork.__call__)["return"],
)
PLAIN = (str, int, float, bool, bytes, type(None), Path, np.ndarray, np.generic, enum.Enum, type)
CALLABLES = {"Digester.match", "Digester.check", "Digester.keep_memory", "PackedRows.read", "ReopenedRanks.work"}
"""Functions pickle where they are those of a module, which no type tells; real ones are passed on below."""


def calls_across() -> Iterator[tuple[str, str]]:
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"gather", "over_files", "pickle.dumps"}:
                yield str(path.relative_to(SOURCES)), ast.unparse(node.func)


def test_all_places_that_give_work_away_are_known() -> None:
    assert set(calls_across()) == PASSED_TO_PROCESSES


def unpicklable(kind: Any, where: str, seen: set[Any]) -> Iterator[str]:
    """Fields, however deep, of whose type nobody can say that it pickles."""
    if kind in (Any, ...) or kind in seen or isinstance(kind, typing.TypeVar):
        return
    if typing.get_origin(kind) is typing.Literal:
        return
    seen.add(kind)
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin is Callable or origin is typing.Callable:
        if where not in CALLABLES:
            yield f"{where}: a function"
        return
    if inspect.isclass(origin) and issubclass(origin, PLAIN):
        return
    for argument in arguments:
        if not isinstance(argument, list | str):
            yield from unpicklable(argument, where, seen)
    containers = (tuple, list, dict, set, frozenset, Mapping, Sequence, Iterable, types.UnionType, typing.Union)
    if origin in containers:
        return
    if inspect.isclass(origin) and is_dataclass(origin):
        hints = typing.get_type_hints(origin, vars(inspect.getmodule(origin)) | NAMES)
        for field in fields(origin):
            yield from unpicklable(hints[field.name], f"{origin.__name__}.{field.name}", seen)
        return
    yield f"{where}: {origin}"


NAMES: dict[str, Any] = {"ServedModel": ServedModel}  # imported for checkers of types only


def test_types_that_cross_hold_nothing_that_does_not_pickle() -> None:
    seen: set[Any] = set()
    assert [found for kind in CROSSING for found in unpicklable(kind, str(kind), seen)] == []


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> Digest:
    folder = tmp_path_factory.mktemp("job")
    write_job(JobSpec(ranks=1, steps=2, layers=1), folder)
    options = JobOptions(jobs=1, use_cache=False)
    return digest_job(sorted(folder.glob("*.gz")), None, options, match=match_rules).digests[0]


def test_digests_from_traces_and_from_files_cross_whole(digest: Digest) -> None:
    data = encoded_whole(digest, "a test")
    from_file = decoded(data, "here")
    for one in (digest, from_file, replace(from_file, left_out={"exchanges": 1})):
        crossed = pickle.loads(pickle.dumps(one))
        assert encoded_whole(crossed, "a test") == encoded_whole(one, "a test")


def every_error(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


@pytest.mark.parametrize("kind", [*every_error(errors.RedlineError), WorkerDied])
def test_errors_cross_with_what_they_say(kind: type[Exception]) -> None:
    error = kind(*(["--jobs", " is odd"] if kind is errors.ParameterError else ["it is odd"]))
    crossed = pickle.loads(pickle.dumps(error))
    assert (type(crossed), str(crossed), vars(crossed)) == (kind, str(error), vars(error))
