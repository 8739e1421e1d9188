"""Whoever reads a file is known here: by the mutants that try it, or by the reason why nobody else writes that file."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import redline
from scripts.fuzz import KINDS
from tests.support.fuzzing.runner import Tally, run_share

SOURCE = Path(redline.__file__).parent
OWN = "a file of the package"
SYSTEM = "of the kernel, or of this machine"
PIPE = "from a process that this one has started, or of a folder that it has made"
COLUMN = "a text in a trace that was read, or in a digest"

KINDS_OF_FILES = {
    "a machine profile": "profile",
    "the config.json of a Hugging Face model": "config",
    "the record of a run": "run",
    "a plan of training": "plan",
    "a trial that Redline has kept": "trial",
    "a trial of a search": "search",
    "the state of a search": "search",
    "levers that were tuned": "tuned",
    "recorded numbers": "numbers",
    "detailed results of `vllm bench serve`": "client",
}
"""Each FileKind, with the mutants that try it."""

READERS = {
    **dict.fromkeys(("artifacts/__init__.py", "artifacts/file_kind.py"), KINDS_OF_FILES),
    **dict.fromkeys(("ledger/rank/digest_file.py", "ledger/rank/packing.py", "ledger/memory/rank_memory.py"), "digest"),
    **dict.fromkeys(("serving/read_logs.py", "serving/read_logs.py", "serving/read_logs.py"), ("engine", "server")),
    **dict.fromkeys(("lake/parts.py", "lake/parts.py"), "lake"),
    "trials/numbers/run_numbers.py": "numbers",
    "job/find_files.py": "run",
    **dict.fromkeys(
        (
            *(
                "trace/decode.py",
                "trace/fast_decode.py",
                "trace/link.py",
                "trace/memory_timeline.py",
            ),
            *(
                "trace/metadata.py",
                "trace/rank_claim.py",
                "trace/reader.py",
                "trace/inflate.py",
            ),
        ),
        "trace",
    ),
    **dict.fromkeys(("trace/entries.py", "trace/store.py", "ledger/rank/file_digests.py"), "a cache, with checksums"),
    **dict.fromkeys(("trace/cache.py", "tuning/source_text.py"), "a source file, as text or bytes"),
    **dict.fromkeys(
        (
            *("findings/pages.py", "hardware/catalogue.py", "model/huggingface.py"),
            *("plan/accuracy.py", "plan/job.py", "plan/serve/setup.py"),
            *("plan/train/kernels.py", "plan/train/memory/footprint.py"),
            *("plan/train/stacks.py", "report/html/frame.py", "report/po_file.py", "trials/lever_pages.py"),
        ),
        OWN,
    ),
}


@cache
def parsed(path: Path) -> ast.Module:
    """Empty for a module with no word of reading in it."""
    text = path.read_text()
    words = {name.rpartition(".")[2] for name in READS | DECODES} | {"open(", "FileKind("}
    return ast.parse(text if any(word in text for word in words) else "")


def readers_in(tree: ast.Module) -> Iterator[str]:
    """Calls that read a file, or decode what was in one."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        modes = [word.value for word in call.args if isinstance(word, ast.Constant)]
        opens = name == "open" or (name.endswith(".open") and {"r", "rb"} & {*modes})
        if name.rpartition(".")[2] in READS or name in DECODES or (opens and not {"w", "wb", "a"} & {*modes}):
            yield name


READS = frozenset(
    {
        *(
            "read_text",
            "read_bytes",
            "read_whole",
            "open_ordinary",
            "lines_of",
            "read_table",
            "read_metadata",
            "dataset",
        ),
        *("frombuffer", "fromfile", "DictReader"),
    }
)
DECODES = frozenset(
    {
        *("json.load", "json.loads", "tomllib.load", "tomllib.loads", "pickle.load", "pickle.loads"),
        *("msgspec.json.decode", "msgspec.msgpack.decode", "msgspec.json.Decoder", "msgspec.msgpack.Decoder"),
    }
)
ASIDE = {
    **dict.fromkeys(("calibration/memory.py", "calibration/conditions.py"), SYSTEM),
    **dict.fromkeys(("capture/supervisor/guardian.py", "capture/supervisor/environment.py"), SYSTEM),
    **dict.fromkeys(("capture/supervisor/stall.py", "capture/supervisor/trial_job.py"), SYSTEM),
    **dict.fromkeys(("trials/trial_pairs.py", "capture/worker/levers/process_settings.py"), SYSTEM),
    **dict.fromkeys(("capture/supervisor/command_line.py", "capture/worker/seen_places.py"), "a source file"),
    "calibration/collectives/start.py": PIPE,
    **dict.fromkeys(
        ("capture/settings.py", "capture/supervisor/run_folder.py", "capture/supervisor/supervise.py"), PIPE
    ),
    **dict.fromkeys(("capture/supervisor/source_digests.py", "lake/sql_process.py", "trace/parallel.py"), PIPE),
    **dict.fromkeys(("verbs/digest_child.py", "trace/steps.py", "cli/calibrate.py"), PIPE),
    **dict.fromkeys(("artifacts/masking.py", "findings/rules/kernels_needless.py"), COLUMN),
    **dict.fromkeys(("ledger/rank/exchanges.py", "report/redaction/redactor.py"), COLUMN),
    "report/terminal.py": "its own function of this name",
    **dict.fromkeys(("roofline/arguments.py", "roofline/sizes.py", "verbs/plan_measured.py"), COLUMN),
}


def test_every_module_that_reads_has_mutants_or_a_reason() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): sorted(set(names))
        for path in sorted(SOURCE.rglob("*.py"))
        if (names := list(readers_in(parsed(path))))
    }
    assert found.keys() - READERS.keys() - ASIDE.keys() == set()
    assert (READERS.keys() | ASIDE.keys()) - found.keys() == set()  # reads no longer


def test_every_kind_of_file_has_mutants() -> None:
    made = {
        call.args[0].value
        for path in SOURCE.rglob("*.py")
        for call in ast.walk(parsed(path))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "FileKind"
        and isinstance(call.args[0], ast.Constant)
    }
    assert made == set(KINDS_OF_FILES)
    assert set(KINDS_OF_FILES.values()) <= set(KINDS)
    assert len(KINDS) == 18


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"trace", "digest", "profile", "config", "run"}))
def test_no_mutant_of_what_is_given_breaks_a_verb(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "lake":
        pytest.importorskip("pyarrow")
        pytest.importorskip("duckdb")
    monkeypatch.setenv("REDLINE_LANG", "en")
    tally: Tally = run_share(KINDS[name], 36_000, range(25), tmp_path)
    told = [
        f"{key}: input {one[0].index} {one[0].input.how}\n{one[0].trace[-2000:]}" for key, one in tally.failures.items()
    ]
    assert not told, "\n".join(told)
    assert tally.outcomes["read"]
    assert tally.outcomes["refused"]
