"""Digests in the cache: a second diagnosis analyses nothing, says the same, and is never of another question."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.errors import InputError
from redline.findings.match import match_rules
from redline.hardware.machine import Figure, FigureSource, Machine
from redline.hardware.profile import save_profile
from redline.job.read_files import JobOptions
from redline.ledger.job.digests import digest_job
from redline.ledger.rank import file_digests
from redline.ledger.rank.digest import Digest, RuleMatcher
from redline.ledger.rank.file_digests import ANALYSING, SCHEMA_VERSION, kept_digests
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.rank_match import RankMatch
from redline.report.diagnose import json as diagnose_json
from redline.trace import cache, entries
from redline.trace.cache import sources, state_of
from redline.trace.entries import Entry
from redline.trace.inflate import Limits
from redline.trace.reader import ReadOptions
from redline.verbs import diagnose as diagnosing
from redline.verbs.diagnose import diagnose
from tests.support.command_line import ROOT
from tests.support.real_traces import RealTraces

RECORDED = sorted((ROOT / "tests" / "data" / "recorded").glob("*.json.gz"))
TRACE = RECORDED[0]
OPTIONS = JobOptions(jobs=1)
REAL = ("hta_nccl_data.json.gz", "sglang_qwen3-8b_decode.json.gz")


@pytest.fixture(autouse=True)
def every_trace_is_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WORTH_BYTES", 0)
    monkeypatch.setattr(cache, "_SETTLED_NS", -(10**12))


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.digests"))


def refuse(*_: object, **__: object) -> Any:
    raise AssertionError("a trace was read or analysed again")


def text_of(*paths: Path, options: JobOptions = OPTIONS, **settings: Any) -> str:
    found = diagnose(list(paths), options=options, **settings)
    return diagnose_json.render(found)


def assert_the_same_from_the_cache(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    plain = text_of(*paths, options=replace(OPTIONS, use_cache=False))
    assert text_of(*paths) == plain
    with monkeypatch.context() as patched:
        patched.setattr(file_digests, "read_cached", refuse)
        patched.setattr(file_digests, "digest_of", refuse)
        assert text_of(*paths) == plain


# --- the same, without analysis ---------------------------------------------------------------------------------------


def test_the_second_diagnosis_analyses_nothing_and_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_the_same_from_the_cache(monkeypatch, *RECORDED[:2])
    assert_the_same_from_the_cache(monkeypatch, *(path for path in RECORDED if "slow_loader" in path.name))


@pytest.mark.needs_traces
@pytest.mark.parametrize("name", REAL)
def test_real_traces_say_the_same_from_the_cache(
    monkeypatch: pytest.MonkeyPatch, traces: RealTraces, name: str
) -> None:
    assert_the_same_from_the_cache(monkeypatch, traces / name)


@pytest.mark.slow
@pytest.mark.needs_traces
def test_all_real_traces_say_the_same_from_the_cache(monkeypatch: pytest.MonkeyPatch, traces: RealTraces) -> None:
    for name in traces.names("*.json.gz"):
        assert_the_same_from_the_cache(monkeypatch, traces / name)
    assert_the_same_from_the_cache(monkeypatch, traces / "dlrm_8rank_v100")


def test_what_is_kept_needs_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(*RECORDED[:2])
    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", refuse)
    assert text_of(*RECORDED[:2], options=JobOptions(jobs=2)) == text


def test_a_step_can_still_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    first = diagnose([TRACE], options=OPTIONS, draw_step=True).step_view
    monkeypatch.setattr(file_digests, "digest_of", refuse)
    monkeypatch.setattr(cache, "read_file", refuse)
    again = diagnose([TRACE], options=OPTIONS, draw_step=True).step_view
    assert first is not None
    assert repr(again) == repr(first)


def test_without_columns_they_are_read_again(cache_of_the_test: Path) -> None:
    diagnose([TRACE], options=OPTIONS)
    for columns in cache_of_the_test.glob("*.timelines"):
        columns.unlink()
    assert diagnose([TRACE], options=OPTIONS, draw_step=True).step_view is not None


def test_no_cache_keeps_no_digests(cache_of_the_test: Path) -> None:
    diagnose([TRACE], options=replace(OPTIONS, use_cache=False))
    assert list(cache_of_the_test.iterdir()) == []


# --- never of another question ----------------------------------------------------------------------------------------


def machine_file(folder: Path, peak: float) -> str:
    figure = Figure(value=peak, source="a test", date="2026-11-16", origin=FigureSource.CALIBRATED)
    path = folder / "machine.json"
    save_profile(Machine(name="Ours", figures={"peak_flops_per_s.fp32": figure}), path, made_by="a test", force=True)
    return str(path)


def test_a_profile_with_other_figures_is_another_machine(tmp_path: Path, cache_of_the_test: Path) -> None:
    peaks = []
    for peak in (1e12, 2e12, 1e12):
        (digest,) = digest_job([TRACE], machine_file(tmp_path, peak), OPTIONS).digests
        peaks.append({one.peak_flops_per_s for one in digest.arithmetic if one.dtype == "fp32"})
    assert peaks == [{1e12}, {2e12}, {1e12}]
    assert len(kept(cache_of_the_test)) == 2


@pytest.mark.parametrize(
    "reading",
    [ReadOptions(step_regex="aten::"), ReadOptions(strict=True), ReadOptions(limits=Limits(ratio=199))],
    ids=["step_regex", "strict", "limits"],
)
def test_other_options_are_another_question(cache_of_the_test: Path, reading: ReadOptions) -> None:
    digest_job([TRACE], None, OPTIONS)
    (other,) = digest_job([TRACE], None, replace(OPTIONS, reading=reading)).digests
    (plain,) = digest_job([TRACE], None, JobOptions(jobs=1, use_cache=False, reading=reading)).digests
    assert other.origin == plain.origin
    assert len(kept(cache_of_the_test)) == 2


def test_no_option_of_reading_was_forgotten() -> None:
    """Whoever adds one says here whether it changes what is read; if it does, it belongs into both keys."""
    in_keys, without_effect = {"step_regex", "strict", "limits"}, {"processes"}
    assert {field.name for field in fields(ReadOptions)} - without_effect == in_keys


def test_strictness_is_honoured_after_a_lenient_diagnosis(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(
        b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}'
    )
    assert len(digest_job([path], None, OPTIONS).digests) == 1
    with pytest.raises(InputError, match="Read it without `strict=True`"):
        digest_job([path], None, replace(OPTIONS, reading=ReadOptions(strict=True)))


def test_with_and_without_rules_are_kept_apart() -> None:
    slow_loader = RECORDED[-1]
    (with_rules,) = digest_job([slow_loader], None, OPTIONS, match=match_rules).digests
    (without,) = digest_job([slow_loader], None, OPTIONS).digests
    assert with_rules.matches
    assert not without.matches


def foreign(_: RankAnalysis) -> tuple[RankMatch, ...]:
    return ()


@pytest.mark.parametrize("matcher", [foreign, lambda _: ()], ids=["of another package", "without a name"])
def test_matchers_that_the_key_cannot_tell_apart_keep_nothing(cache_of_the_test: Path, matcher: RuleMatcher) -> None:
    digest_job([TRACE], None, OPTIONS, match=matcher)
    assert kept(cache_of_the_test) == []


def test_a_replaced_trace_of_the_same_size_and_time_is_analysed_again(tmp_path: Path) -> None:
    path, other = tmp_path / "rank-0.json.gz", tmp_path / "other"
    one, two = RECORDED[:2]
    size = max(one.stat().st_size, two.stat().st_size)
    path.write_bytes(one.read_bytes().ljust(size, b"\0"))
    first = digest_job([path], None, OPTIONS).digests
    other.write_bytes(two.read_bytes().ljust(size, b"\0"))
    before = path.stat()
    other.rename(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = digest_job([path], None, OPTIONS).digests
    assert first[0].window_ns != again[0].window_ns


# --- the code is part of the question ---------------------------------------------------------------------------------

WATCH = """
import importlib.util, sys
from pathlib import Path
opened = set()
sys.addaudithook(lambda event, what: opened.add(str(what[0])) if event == "open" else None)
import redline
from redline.ledger.job.digests import digest_job
from redline.findings.match import match_rules
from redline.job.read_files import JobOptions
digest_job([Path(path) for path in sys.argv[1:]], None, JobOptions(use_cache=False, jobs=1), match=match_rules)
package = str(Path(redline.__file__).parent)
loaded = {module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "redline"}
print("\\n".join(path for path in opened | loaded if path.startswith(package) and "__pycache__" not in path))
"""


def test_every_file_that_a_digest_depends_on_is_in_its_key() -> None:
    made = subprocess.run(
        [sys.executable, "-c", WATCH, *map(str, RECORDED[:2])], capture_output=True, text=True, check=True
    )
    used = set(map(Path, made.stdout.splitlines()))
    assert len(used) > 50
    assert used - set(sources(ANALYSING)) == set()


def test_an_edit_of_the_code_is_seen_at_once(tmp_path: Path, cache_of_the_test: Path) -> None:
    copy = tmp_path / "redline"
    shutil.copytree(Path(redline.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import sys; from redline.trace import cache; cache.WORTH_BYTES = 0\n"
        "from redline.verbs.diagnose import diagnose\n"
        "print(diagnose(sys.argv[1]).diagnosis.ranks[0].facts.short_kernels)"
    )

    def short_kernels() -> int:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", code, str(TRACE)]
        made = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return int(made.stdout)

    before = short_kernels()
    assert short_kernels() == before
    assert len(kept(cache_of_the_test)) == 1
    edited = copy / "ledger" / "rank" / "digest.py"
    edited.write_text(edited.read_text().replace("SHORT_KERNEL_NS = 10_000", "SHORT_KERNEL_NS = 10_0000"))
    assert short_kernels() > before


# --- what is found there is not believed ------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"\x90", b"\x91\xa1a", b"\x91\xc4\x01a", b"\xdd\xff\xff\xff\xff", b"rubbish"])
def test_an_entry_of_something_else_is_analysed_again(cache_of_the_test: Path, content: bytes) -> None:
    (plain,) = digest_job([TRACE], None, OPTIONS).digests
    (file,) = kept(cache_of_the_test)
    asked = kept_digests(cache_of_the_test, ReadOptions(), None, None)
    assert asked is not None
    key = f"{state_of(TRACE).key}|{asked.way}|{cache.code_key(*ANALYSING)}"
    entry = Entry(kind="digests", schema_version=SCHEMA_VERSION, key=key)
    assert entry.name == file.name
    whole = file.read_bytes()
    entries.save(cache_of_the_test, entry, [content])
    (again,) = digest_job([TRACE], None, OPTIONS).digests
    assert _plain(again) == _plain(plain)
    assert file.read_bytes() == whole


def test_a_digest_with_thousands_of_kernels_is_kept_whole(cache_of_the_test: Path) -> None:
    (digest,) = digest_job([TRACE], None, OPTIONS).digests
    rows = tuple(replace(digest.kernels[0], shapes=f"[[{number}]]") for number in range(20_000))
    asked = kept_digests(cache_of_the_test, ReadOptions(), None, None)
    assert asked is not None
    asked.save(state_of(TRACE), (replace(digest, kernels=rows),))
    (again,) = asked.load(state_of(TRACE))
    assert list(map(repr, again.kernels)) == list(map(repr, rows))  # nan is not equal to itself
    assert again.left_out == {}


def test_an_entry_whose_causes_are_not_whole_is_analysed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(RECORDED[-1])
    checked = []

    def refusing(digest: Digest, where: str) -> None:
        checked.append(where)
        raise InputError("figures are missing")

    monkeypatch.setattr(diagnosing, "check_matches", refusing)
    assert text_of(RECORDED[-1]) == text
    assert checked == ["the cache"]


def _plain(digest: Digest) -> object:
    return json.dumps([digest.origin.source, digest.window_ns, digest.ledger.steps.tolist(), str(digest.facts)])
