"""Digests, profiles, configs, records of runs: whatever stands in them, each verb that takes one answers, or refuses it
in a line or two; nothing on the terminal commands it, and what is to be JSON is."""

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import zstandard

from redline.capture.captured import captured_of
from redline.capture.run_record import to_json
from redline.cli import main
from redline.findings.match import match_rules
from redline.findings.registry import RULES
from redline.hardware import catalogue
from redline.hardware.profile import save_profile
from redline.ledger.memory.rank_memory import rank_memory
from redline.ledger.rank.digest import Digest, digest_of
from redline.ledger.rank.digest_file import encoded
from redline.ledger.rank.rank_match import RankMatch, longest
from redline.model.huggingface import known_config, known_models
from redline.report.terminal import visible_lines
from redline.timeline.intervals import Intervals
from redline.trace.reader import read_file
from tests.support import made_calibrations
from tests.support.events import document, read_one, region
from tests.support.fuzzing.mutate import Mutant
from tests.support.fuzzing.mutate_records import Record, as_json, as_msgpack
from tests.support.fuzzing.mutate_records import mutant as record_mutant
from tests.support.fuzzing.runner import Kind, expect
from tests.support.memory_jobs import HEALTHY
from tests.support.run_records import rank, window
from tests.support.run_records import run as run_of
from tests.support.traces.synthetic import JobSpec, simulate_job, write_rank

BUG = "is a bug in Redline"
LONGEST_REFUSAL = 3  # lines


# --- a command --------------------------------------------------------------------------------------------------------


def run(*words: str | Path, is_json: bool = False) -> int:
    """The exit code of a command line that keeps its promises, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with _streams(out, err):
        code = main([str(word) for word in words])
    said, told = out.getvalue(), err.getvalue()
    if BUG in told:
        raise AssertionError(_place(told)) from RuntimeError(told)
    expect(code in (0, 2), f"exit code {code}")
    expect(visible_lines(said + told) == said + told, "nothing hidden reaches the terminal")
    if code:
        expect(told.startswith("redline: ") and told.count("\n") <= LONGEST_REFUSAL, f"a refusal is short: {told:.300}")
        expect(not said, "what is refused gives no result")
    elif is_json:
        json.loads(said, parse_constant=_no_number)
    return code


@contextmanager
def _streams(out: io.StringIO, err: io.StringIO) -> Iterator[None]:
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _no_number(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def _place(told: str) -> str:
    """Where a traceback ends, and how: the same for all inputs that fail in the same place."""
    lines = [line.strip() for line in told.splitlines()]
    places = [line for line in lines if line.startswith('File "') and "/redline/" in line]
    error = next((line for line in reversed(lines) if line and not line.startswith("redline:")), "")
    return f"{places[-1].rpartition('/redline/')[2] if places else ''}: {error.partition(':')[0]}"


# --- digests ----------------------------------------------------------------------------------------------------------


@cache
def digest_seeds() -> tuple[Record, ...]:
    """Digests of a GPU job in which every rule saw something, of steps long and short, of nothing at all, of memory."""
    spec = JobSpec(ranks=2, steps=2, layers=1, step_compute_us=500, with_stacks=True)
    with TemporaryDirectory() as folder:
        files = [write_rank(simulate_job(spec), rank, Path(folder), compress=False).path for rank in range(2)]
        timelines = [read_file(file).timelines[0] for file in files]
        bare = digest_of(read_one(document([region("nothing", 0, 5)]), Path(folder)), None)
        memory = rank_memory(read_one(document(replace(HEALTHY, kept=3).events()), Path(folder)))
    machine = catalogue.match("NVIDIA H100 80GB HBM3")
    first, second = (digest_of(timeline, machine, match=match_rules) for timeline in timelines)
    first, second = (replace(one, kernels=one.kernels[:5], doing=one.doing[:3]) for one in (first, second))
    seen = (_with_every_rule(first), _with_every_rule(second))
    digests = (first, second, *seen, bare, replace(first, matches=()), replace(second, memory=memory))
    # Whatever folder they were read from, a seed gives the same mutants.
    named = [replace(one, origin=replace(one.origin, source="rank.json")) for one in digests]
    return tuple(msgspec.msgpack.decode(zstandard.decompress(encoded(one, "a test"))) for one in named)


def _with_every_rule(digest: Digest) -> Digest:
    ledger = digest.ledger
    steps_ns = ledger.end_ns - ledger.start_ns
    places = longest(Intervals.union_of(ledger.start_ns, ledger.end_ns))
    seen = (
        RankMatch(
            code=rule.code,
            claimed_ns=steps_ns // 3,
            alone_ns=np.where(steps_ns > 1, steps_ns // 2, steps_ns),
            accounts={"host": int(steps_ns.sum()) // 3},
            places=places,
            figures=dict.fromkeys((*rule.figures, *_MORE_FIGURES.get(rule.code, ())), 5.0),
            names=dict.fromkeys((*rule.names, "site"), "a.py(3): f"),
        )
        for rule in RULES
        if rule.match is not None
    )
    return replace(digest, matches=tuple(seen))


_OF_PHASE = ("steps", "time_ns", "busy_ns", "computing_ns", "unknown_ns", "requests", "tokens")
_MORE_FIGURES = {
    "RL-M01": ("full", "memory_bytes", "unusable_bytes"),
    "RL-H01": ("stacked",),
    "RL-S01": tuple(f"{phase}_{name}" for phase in ("prefill", "decode") for name in _OF_PHASE),
}


@cache
def _good_digest() -> bytes:
    return zstandard.compress(as_msgpack(digest_seeds()[1]))


def digest_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    """Alone or beside a good one, in one of the formats; in all of them where there is more time."""
    number = path.stat().st_size  # by chance, but the same each time
    formats = (("--json",), _TABLES, ("--format", "md", *_TABLES[1:]), ("--format", "csv", "--kernels"))
    paths = [path]
    if number % 3 == 0:
        paths.append(path.with_name("other.digest"))
        paths[1].write_bytes(_good_digest())
    code = 2
    for words in formats if sampled else (formats[number % len(formats)],):
        code = run("diagnose", *paths, "--jobs", "1", *words, is_json=words == ("--json",))
    if sampled and not code and number % 10 == 0:  # pages take long
        page = path.with_name("page.html")
        run("diagnose", *paths, "-q", "--force", "-o", page)
        text = page.read_text()
        expect("<script>alert(1)" not in text and "\x1b" not in text, "a page holds names as text")
    return "refused" if code else "read", ()


_TABLES = ("-v", "--findings", "--kernels", "--collectives", "--ranks", "--steps", "--host")


# --- profiles ---------------------------------------------------------------------------------------------------------


@cache
def profile_seeds() -> tuple[Record, ...]:
    kinds: Sequence[tuple[Callable[[], Any], Callable[[], Any] | None]] = (
        (made_calibrations.gpu_machine, made_calibrations.gpu_calibration),
        (made_calibrations.cpu_machine, made_calibrations.calibration),
        (made_calibrations.gpu_machine, made_calibrations.bare_calibration),
        (made_calibrations.gpu_machine, None),
    )
    records = []
    with TemporaryDirectory() as folder:
        for number, (machine, calibration) in enumerate(kinds):
            path = Path(folder) / f"{number}.json"
            measured = None if calibration is None else msgspec.to_builtins(calibration())
            save_profile(machine(), path, made_by="a test", calibration=measured)
            records.append(json.loads(path.read_bytes()))
    return tuple(records)


def profile_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    number = path.stat().st_size
    is_json = bool(number % 2)
    asked = ("--json",) if is_json else ()
    code = run("hardware", path, *asked, is_json=is_json)
    if number % 3 == 0:
        good = path.with_name("good.json")
        good.write_bytes(as_json(profile_seeds()[number % 2]))
        both = (path, good) if number % 2 else (good, path)
        run("calibrate", "--compare", *both, "-q", *asked, is_json=is_json)
    if sampled and not code:
        run("plan", "train", "--model", "gpt2", "--machine", path, *_TRAIN, *asked, is_json=is_json)
        run("plan", "serve", "--model", "gpt2", "--machine", path, *_SERVE, *asked, is_json=is_json)
    return "refused" if code else "read", ()


def calibration_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    """The measurements behind a profile, which only a comparison reads."""
    good = path.with_name("good.json")
    good.write_bytes(as_json(profile_seeds()[0]))
    asked = ("--json",) if sampled else ()
    return ("refused" if run("calibrate", "--compare", path, good, "-q", *asked, is_json=sampled) else "read"), ()


# --- configs ----------------------------------------------------------------------------------------------------------


@cache
def config_seeds() -> tuple[Record, ...]:
    configs = [known_config(name) for name in known_models()]
    by_family = {str(one.get("model_type") or one.get("_class_name")): one for one in configs}
    inside = {"model_type": "odd", "text_config": by_family["llama"], "vision_config": {"hidden_size": 7}}
    return (*by_family.values(), inside)


def config_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    """All are read; of those that can be planned with, some are."""
    from redline.errors import RedlineError
    from redline.model.parameters import count_parameters
    from redline.verbs.plan import find_model

    try:
        total = count_parameters(find_model(str(path), {})).total
    except RedlineError:
        total = 0
    if not total or sampled:
        number = path.stat().st_size
        kind, words = (("train", _TRAIN), ("serve", _SERVE))[number % 2]
        asked = ("--json",) if number % 4 < 2 else ()
        run("plan", kind, "--model", path, "--machine", "H100-SXM5-80GB", *words, *asked, is_json=bool(asked))
    return "read" if total else "refused", ()


_TRAIN = ("--gpus", "4", "--sequence", "512", "--batch", "8", "--micro-batch", "1", "--zero", "1")
_SERVE = ("--gpus", "1", "--prompt", "64", "--output-tokens", "16")


# --- records of runs --------------------------------------------------------------------------------------------------


def run_seeds() -> tuple[Record, ...]:
    windows = (window(), window(number=2, state="killed", slowdown=None))
    records = (run_of(rank(windows=windows), rank(1, windows=windows)), run_of(rank()))
    return tuple(json.loads(json.dumps(to_json(one))) for one in records)


def run_outcome(path: Path, *, sampled: bool) -> tuple[str, Iterable[str]]:
    """Beside traces, a record that makes no sense says nothing."""
    folder = path.with_name("window-1")
    folder.mkdir(exist_ok=True)
    (folder / "rank-0.digest").write_bytes(_good_digest())
    is_json = sampled or path.stat().st_size % 2 == 0
    expect(run("diagnose", folder, "-q", *(("--json",) if is_json else ()), is_json=is_json) == 0, "traces are read")
    return ("read" if captured_of([folder / "rank-0.digest"]) is not None else "refused"), ()


# --- all --------------------------------------------------------------------------------------------------------------


def _digest_mutant(seeds: Sequence[Record], seed: int, index: int) -> Mutant:
    made = record_mutant(seeds, seed, index)
    return Mutant(
        name="rank-0.digest", data=zstandard.compress(as_msgpack(made.record, is_plain=made.is_plain)), how=made.how
    )


def json_mutant(seeds: Sequence[Record], seed: int, index: int, name: str = "mutant.json") -> Mutant:
    made = record_mutant(seeds, seed, index)
    return Mutant(name=name, data=as_json(made.record, is_plain=made.is_plain), how=made.how)


DIGEST = Kind(name="digest", seeds=digest_seeds, mutant=_digest_mutant, outcome_of=digest_outcome)
PROFILE = Kind(name="profile", seeds=profile_seeds, mutant=json_mutant, outcome_of=profile_outcome)
CALIBRATION = Kind(
    name="calibration", seeds=lambda: profile_seeds()[:3], mutant=json_mutant, outcome_of=calibration_outcome
)
RUN = Kind(name="run", seeds=cache(run_seeds), mutant=partial(json_mutant, name="run.json"), outcome_of=run_outcome)
CONFIG = Kind(name="config", seeds=config_seeds, mutant=json_mutant, outcome_of=config_outcome)
