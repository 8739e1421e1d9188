"""Files that are read back or given, and words of a command line: each mutant is answered, or refused in a line."""

import json
import pickle
import random
import shutil
import string
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from redline.errors import RedlineError
from redline.numerics import Numerics
from redline.report.plan.train.training_report import record_of
from redline.trials.numbers.run_numbers import read_run
from redline.trials.trial_record import to_record
from redline.tuning.trial_folder import Answer, Asked, Question, TrialFolder
from redline.tuning.tuned_file import levers_of
from tests.support import made_plans, made_tunings
from tests.support.events import document, op, region
from tests.support.fuzzing.mutate import Mutant, scrambled
from tests.support.fuzzing.mutate_records import NUMBERS, TEXTS, Record, as_json
from tests.support.fuzzing.mutate_records import mutant as record_mutant
from tests.support.fuzzing.records import json_mutant, run, run_seeds
from tests.support.fuzzing.runner import Kind
from tests.support.host_evidence import record
from tests.support.made_engine import MadeEngine
from tests.support.made_snapshots import random_allocator

FORMS = ("out.html", "out.json", "out.md", "out.csv", "out.txt")


def verdict(code: int) -> tuple[str, Iterable[str]]:
    return ("refused" if code else "read"), ()


def shown_as(path: Path) -> list[str | Path]:
    """A form of the report, another for each size of a file."""
    return ["-o", path.with_name(FORMS[path.stat().st_size % len(FORMS)]), "--force"]


def lines_mutant(seeds: Sequence[list[Any]], seed: int, index: int, name: str) -> Mutant:
    """A log of JSON lines, some of which are changed, or its bytes."""
    rng = random.Random(f"{seed}:{index}")
    lines = [as_json(line) for line in rng.choice(seeds)]
    how: tuple[str, ...] = ()
    for number in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(lines))
        made = record_mutant([json.loads(lines[place] or b"[]")], seed, 8 * index + number)
        lines[place] = as_json(made.record).replace(b"\n", b" ")
        if not lines[place]:
            lines[place] = b"[]"
        how += made.how
        if not _is_json(lines[place]):
            break
    data = b"\n".join((*lines, b""))
    return Mutant(name=name, data=scrambled(data, [data], rng, []) if rng.random() < 0.1 else data, how=how)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def bytes_mutant(seeds: Sequence[bytes], seed: int, index: int, name: str) -> Mutant:
    rng = random.Random(f"{seed}:{index}")
    how: list[str] = []
    return Mutant(name=name, data=scrambled(rng.choice(seeds), seeds, rng, how), how=tuple(how))


# --- of a job ---------------------------------------------------------------------------------------------------------


def evidence_seeds() -> tuple[Record, ...]:
    """What `redline run` puts beside a trace."""
    events = [op("a", 5, 80), region("ProfilerStep#1", 0, 90)]
    return (json.loads(document(events, baseTimeNanoseconds=0, redline=record())),)


def trace_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    return verdict(run("diagnose", path, "--host", "--no-cache", "--jobs", "1", *(["--json"] if sampled else ["-q"])))


def snapshot_seeds() -> tuple[bytes, ...]:
    return tuple(pickle.dumps(random_allocator(seed, 60).snapshot(), protocol=seed + 2) for seed in range(3))


def snapshot_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    return verdict(run("memory", path, *(shown_as(path) if sampled else ["-q"])))


# --- plans ------------------------------------------------------------------------------------------------------------


def plan_seeds() -> tuple[Record, ...]:
    return (record_of(made_plans.plan()),)


def plan_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    snapshot = random_allocator(0, 60).write(path.with_name("snapshot.pickle"))
    return verdict(run("memory", snapshot, "--plan", path, *(shown_as(path) if sampled else ["-q"])))


# --- trials and searches ----------------------------------------------------------------------------------------------


def trial_seeds() -> tuple[Record, ...]:
    records = (
        to_record(made_tunings.trial(-0.1), made_tunings.numbers(Numerics.SEMANTICS, first="a.weight")),
        to_record(made_tunings.trial(0.2), None),
    )
    return tuple(json.loads(json.dumps(record)) for record in records)


def trial_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    return verdict(run("compare", path, *shown_as(path)))


@cache
def search_seeds() -> tuple[Record, ...]:
    """Both files of a search in one record."""
    with TemporaryDirectory() as name:
        folder = TrialFolder(Path(name) / "search", {"command": "a", "machine": ["b", 1]})
        question = Question(asked=Asked.TIME, kept=("gc-freeze",), levers=("fused",))
        known = Answer(trial=made_tunings.trial(-0.1), memory=made_tunings.memory(5, 4), peak_bytes=3, step_s=0.5)
        folder.keep(question, known)
        (file,) = (folder.path / "trials").iterdir()
        return (
            {"state": json.loads((folder.path / "tuning.json").read_text()), "trial": json.loads(file.read_text())},
        )


def search_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    """The mutant is the answer, or the state of the search."""
    folder = path.with_name("search")
    (folder / "trials").mkdir(parents=True, exist_ok=True)
    good, is_state = search_seeds()[0], path.stat().st_size % 3 == 0
    data = path.read_bytes()
    (folder / "tuning.json").write_bytes(data if is_state else json.dumps(good["state"]).encode())
    (folder / "trials" / "001-time.json").write_bytes(json.dumps(good["trial"]).encode() if is_state else data)
    try:
        TrialFolder(folder, {"command": "a", "machine": ["b", 1]})
    except RedlineError:
        return "refused", ()
    run("compare", folder)
    return "read", ()


def search_mutant(seeds: Sequence[Record], seed: int, index: int) -> Mutant:
    part = random.Random(index).choice(("state", "trial", "trial"))
    made = json_mutant([seeds[0][part]], seed, index, "answer.json")
    padding = (-len(made.data) if part == "state" else 1 - len(made.data)) % 3
    return Mutant(name=made.name, data=made.data + b" " * padding, how=made.how)


TUNED = (
    '# Made by `redline tune`.\ncommand = "python train.py"\nlevers = [\n    "fused",\n    "env:A=x\\"y",\n]\n\n'
    "[measured]\nchange = -0.1\nlow = -0.2\nhigh = 0.0\npairs = 12\n"
)


def tuned_mutant(seeds: Sequence[bytes], seed: int, index: int) -> Mutant:
    rng = random.Random(f"{seed}:{index}")
    if rng.random() < 0.5:
        return bytes_mutant(seeds, seed, index, "tuned.toml")
    odd = rng.choice(
        (*map(str, NUMBERS), "7" * 5_000, "[" * 5_000, "{a=" * 3_000, "1979-99-99", *map(json.dumps, TEXTS))
    )
    value = rng.choice((odd, f"[{odd}]", f'["fused", {odd}]', f"[{odd}, {odd}]"))
    return Mutant(name="tuned.toml", data=f"levers = {value}\n".encode("utf-8", "replace"), how=("odd value",))


def tuned_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    try:
        levers_of([str(path)])
    except RedlineError:
        return "refused", ()
    return "read", ()


def numbers_seeds() -> tuple[bytes, ...]:
    head = {
        "kind": "numbers",
        "schema_version": 1,
        "made_by": "redline run",
        "synthetic": False,
        "redline_version": "1",
        "world": 1,
        "rank": 0,
        "steps": 2,
        "by_optimizer": True,
        "lowered": False,
        "failure": "",
        "notes": ["a note"],
        "check": {},
    }
    tensor = {"step": 0, "kind": "loss", "name": "loss", "shape": [], "dtype": "float32", "copy": "", "square_sum": 4.0}
    tensors = [{**tensor, "step": step, "non_finite": 0, "hash": "ab", "numbers": 1} for step in (0, 1)]
    return (json.dumps({**head, "tensors": tensors}).encode(),)


def numbers_mutant(seeds: Sequence[bytes], seed: int, index: int) -> Mutant:
    made = json_mutant([json.loads(one) for one in seeds], seed, index, "rank-0.numbers")
    return Mutant(name=made.name, data=made.data.replace(b"\n", b" ") + b"\n" + bytes(16), how=made.how)


def numbers_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    try:
        read_run(path.parent)
    except RedlineError:
        return "refused", ()
    return "read", ()


# --- a serving engine -------------------------------------------------------------------------------------------------


@cache
def engine() -> MadeEngine:
    """One whose requests have the names that a client gives."""
    made = MadeEngine(seed=3)
    requests = made.run(12)
    text = json.dumps([made.engine, made.server])
    for number, request in enumerate(requests):
        text = text.replace(f'"{request.name}"', f'"cmpl-bench-0a1b-{number}-0"')
    made.engine, made.server = json.loads(text)
    return made


CLIENT = {
    "ttfts": [0.05] * 12,
    "itls": [[0.01, 0.02]] * 12,
    "errors": [""] * 11 + ["gone"],
    "mean_ttft_ms": 50.0,
    "generated_texts": ["x"] * 12,
}


def engine_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    """The mutant is one file of a run, and the others are sound."""
    folder = path.with_name("run")
    folder.mkdir(exist_ok=True)
    engine().write(folder)
    (folder / "run.json").write_bytes(as_json(run_seeds()[0]))
    words: list[str | Path] = ["diagnose", folder, "--jobs", "1", "--no-cache"]
    if path.name == "client.json":
        words += ["--client", path]
    else:
        (folder / path.name).write_bytes(path.read_bytes())
    return verdict(run(*words, *(shown_as(path) if sampled else ["-q"])))


# --- words of a command line ------------------------------------------------------------------------------------------

TRACE, JOB = "trace.json", ("diagnose", "trace.json", "--no-cache", "--jobs", "1", "-q")
PLANNED = ("plan", "train", "--model", "gpt2", "--gpus", "1")
OPTIONS = (
    *((*JOB, option) for option in ("--step-regex", "--what-if", "--fail-on", "--machine", "--model", "--lang")),
    *(("run", option) for option in ("--when", "--with", "--after", "--steps", "--max-size", "--timed-after")),
    *((*PLANNED, option) for option in ("--measured", "--machine", "--batch", "--lora")),
    *(("compare", "no_such_trace.json", option) for option in ("--with", "--machine")),
    *(("digest",), ("inspect",), ("memory",), ("merge",), ("explain",), ("lake", "ask", "jobs", "--lake")),
)
SOUND = ("(a+)+$", "^my$", "kernels(gemm)/2", "loader=0", "idle>20%", "step=1.5s,gpus=64", "step%10==0", "12GiB", "5s")
ODD = (*TEXTS[5:], *map(str, NUMBERS), "x" * 100_000, "(" * 5_000, "7" * 5_000, "-" * 99)
PIECES = (*string.punctuation, *string.digits, *SOUND, "((", "9" * 400, "a" * 5_000, "\u4e2d", "e999")


def option_mutant(_seeds: Sequence[object], seed: int, index: int) -> Mutant:
    """A word, one to a file, after the number of the options that it belongs to."""
    rng = random.Random(f"{seed}:{index}")
    word = rng.choice((*SOUND, *SOUND, *SOUND, *ODD))
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        at = rng.randrange(len(word) + 1)
        word = word[:at] + rng.choice(PIECES) + word[at + rng.choice((0, 0, 1, 3)) :]
    word = word.replace("\0", "")
    return Mutant(name="word", data=f"{rng.randrange(len(OPTIONS))} {word}".encode("utf-8", "replace"), how=("word",))


def option_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    number, _, word = path.read_bytes().decode().partition(" ")
    trace = path.with_name(TRACE)
    trace.write_bytes(document([op("a" * 50 + "b", 5, 80), region("my", 0, 90)]))
    *words, last = [str(trace) if one == TRACE else one for one in OPTIONS[int(number)]]
    words += [f"{last}={word}"] if last.startswith("--") else [last, word.lstrip("-") or "x"]
    return verdict(run(*words))


# --- a lake -----------------------------------------------------------------------------------------------------------


@cache
def lake_seeds() -> tuple[bytes, ...]:
    from redline.lake.parts import parts_of
    from redline.verbs.digest import digest
    from redline.verbs.lake import add_to_lake
    from tests.support.traces.synthetic import JobSpec, write_job

    with TemporaryDirectory() as name:
        write_job(JobSpec(ranks=2, steps=2, layers=1), Path(name) / "traces")
        digest([Path(name) / "traces"], Path(name) / "digests")
        add_to_lake([Path(name) / "digests"], Path(name) / "lake")
        return (parts_of(Path(name) / "lake")[0].path.read_bytes(),)


def lake_mutant(seeds: Sequence[bytes], seed: int, index: int) -> Mutant:
    """Bytes of the file, or a column of other values or of another type."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = random.Random(f"{seed}:{index}")
    if rng.random() < 0.5:
        return bytes_mutant(seeds, seed, index, "part.parquet")
    table = parquet.read_table(pa.BufferReader(rng.choice(seeds)))
    how = []
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(table.num_columns)
        name = table.column_names[place]
        values = [rng.choice((None, None, *NUMBERS, *TEXTS, True, b"x", [1])) for _ in range(table.num_rows)]
        values = [values[0]] * table.num_rows if rng.random() < 0.6 else values
        try:
            column = pa.array(values, table.schema.field(place).type if rng.random() < 0.5 else None)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            table = table.remove_column(place) if rng.random() < 0.3 else table
            column = None
        if column is not None:
            table = table.set_column(place, name, column)
        how.append(name)
    buffer = pa.BufferOutputStream()
    rows = pa.array(list(range(table.num_rows)) * rng.choice((0, 1, 1, 1, 1_000)), pa.int64())
    parquet.write_table(table.take(rows), buffer)
    return Mutant(name="part.parquet", data=buffer.getvalue().to_pybytes(), how=tuple(how))


def lake_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    from redline.lake.parts import compact_all
    from redline.lake.questions import QUESTIONS

    data, day = path.read_bytes(), path.with_name("lake") / "day=2026-10-01"
    shutil.rmtree(day.parent, ignore_errors=True)
    day.mkdir(parents=True)
    for number, content in enumerate((data, lake_seeds()[0])):
        schema = 1 + (len(data) % 7 > 0)
        (day / f"{number:016x}-1795100420284916881-0000000{number}.v{schema}.parquet").write_bytes(content)
    question = sorted(QUESTIONS)[len(data) % len(QUESTIONS)]
    words: list[str | Path] = ["lake", "ask", question, "--lake", day.parent, "--job", "run"]
    code = run(*words[: -2 if "job" not in QUESTIONS[question].needs else None], *shown_as(path))
    if sampled:
        compact_all(day.parent)
    return verdict(code)


def _lines(one: MadeEngine) -> Iterator[list[Any]]:
    yield from (one.engine, one.server)


LAKE = Kind(name="lake", seeds=lake_seeds, mutant=lake_mutant, outcome_of=lake_outcome)
EVIDENCE = Kind(
    name="evidence", seeds=evidence_seeds, mutant=partial(json_mutant, name="rank-0.json"), outcome_of=trace_outcome
)
SNAPSHOT = Kind(
    name="snapshot",
    seeds=snapshot_seeds,
    mutant=partial(bytes_mutant, name="snapshot.pickle"),
    outcome_of=snapshot_outcome,
)
PLAN = Kind(name="plan", seeds=plan_seeds, mutant=json_mutant, outcome_of=plan_outcome)
TRIAL = Kind(name="trial", seeds=trial_seeds, mutant=partial(json_mutant, name="001.json"), outcome_of=trial_outcome)
SEARCH = Kind(name="search", seeds=search_seeds, mutant=search_mutant, outcome_of=search_outcome)
TUNED_FILE = Kind(name="tuned", seeds=lambda: (TUNED.encode(),), mutant=tuned_mutant, outcome_of=tuned_outcome)
RECORDED = Kind(name="numbers", seeds=numbers_seeds, mutant=numbers_mutant, outcome_of=numbers_outcome)
ENGINE_LOG, SERVER_LOG = (
    Kind(
        name=name.partition("-")[0],
        seeds=lambda place=place: (list(_lines(engine()))[place],),  # type: ignore[misc]
        mutant=partial(lines_mutant, name=name),
        outcome_of=engine_outcome,
    )
    for place, name in enumerate(("engine-7.jsonl", "server-8.jsonl"))
)
CLIENT_FILE = Kind(
    name="client", seeds=lambda: (CLIENT,), mutant=partial(json_mutant, name="client.json"), outcome_of=engine_outcome
)
OPTION = Kind(name="option", seeds=lambda: ((),), mutant=option_mutant, outcome_of=option_outcome)
GIVEN = (
    *(EVIDENCE, SNAPSHOT, PLAN, TRIAL, SEARCH, TUNED_FILE, RECORDED),
    *(ENGINE_LOG, SERVER_LOG, CLIENT_FILE, LAKE, OPTION),
)
