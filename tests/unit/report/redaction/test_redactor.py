"""Redaction takes out what is private wherever it stands, twice changes nothing more, and amounts stay as they are."""

import json
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import redline
from redline.errors import InputError, NotATraceError
from redline.job.read_failures import Failure
from redline.report.diagnose import json as diagnose_json
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.redaction.private import MARK, Private
from redline.report.redaction.redactor import Redactor, Removed, redacted_text
from tests.support.traces.synthetic import JobSpec, write_job


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> DiagnoseResult:
    """A job of two ranks that name a host, with a third file that is no trace."""
    folder = tmp_path_factory.mktemp("jobs") / "job"
    write_job(JobSpec(ranks=2, steps=3, layers=1), folder)
    (folder / "page.json").write_text("<html>")
    found = redline.diagnose([folder])
    ranks = [replace(one, origin=replace(one.origin, host="gpu-17.acme.io")) for one in found.diagnosis.ranks]
    return replace(found, diagnosis=replace(found.diagnosis, ranks=tuple(ranks)))


def numbers(value: Any) -> list[Any]:
    """Everything in a JSON value that is no text, in order."""
    if isinstance(value, dict):
        return [number for one in value.values() for number in numbers(one)]
    if isinstance(value, list | tuple):
        return [number for one in value for number in numbers(one)]
    return [] if isinstance(value, str) else [value]


def record_of(found: DiagnoseResult) -> dict[str, Any]:
    record = diagnose_json.as_record(replace(found, removed=None))
    return dict(json.loads(json.dumps(record)))


def test_amounts_are_untouched(found: DiagnoseResult) -> None:
    clean = found.redacted()
    assert numbers(record_of(clean)) == numbers(record_of(found))
    assert clean.diagnosis.ranks[0].ledger is found.diagnosis.ranks[0].ledger


def test_hosts_sources_and_failures(found: DiagnoseResult) -> None:
    clean = found.redacted(Redactor(b"fixed"))
    (first, second), (failure,) = clean.diagnosis.ranks, clean.failures
    assert first.origin.host == second.origin.host
    assert MARK.fullmatch(first.origin.host)
    assert first.origin.source != second.origin.source
    assert first.origin.source.endswith(">.pt.trace.json.gz")
    assert MARK.fullmatch(failure.path.removesuffix(".json"))
    assert failure.message.startswith(f"{failure.path}: ")
    assert clean.removed is not None
    assert [(one.kind, one.count) for one in clean.removed] == [(Private.HOST, 1), (Private.FILE, 3)]


def test_what_was_taken_out_is_never_shown(found: DiagnoseResult) -> None:
    clean = found.redacted()
    assert clean.removed is not None
    for one in clean.removed:
        assert MARK.fullmatch(one.example)
    assert "acme" not in repr(clean.removed)


def test_twice_changes_nothing_more(found: DiagnoseResult) -> None:
    redactor = Redactor()
    once = found.redacted(redactor)
    assert record_of(once.redacted(redactor)) == record_of(once)
    assert record_of(once.redacted()) == record_of(once)  # with another key


PATHS = ["/home/alice/x.py(3): f", "s3://acme/b", "alice", "gpu-17", "/", "~", "\\", "C:\\x\\y"]
SECRETS = [
    "token=",
    "sk-abc123def456",
    "password: ",
    "customer=ACME",
    "wJ2lrXUtnF9MIK7MDeNGbPx",
    "<secret-0000>",
    "...",
]
OTHERS = ["a@b.co", "10.0.0.1", "host=", "user=", " ", "=", ":", "<", ">", '"']
FRAGMENTS = st.sampled_from([*PATHS, *SECRETS, *OTHERS])


@given(st.lists(FRAGMENTS | st.text(max_size=5), max_size=8).map("".join))
def test_any_text_twice_changes_nothing_more(text: str) -> None:
    redactor = Redactor()
    redactor.learn(["/home/alice/x"])
    once = redactor.text(text)
    redactor.learn([once])
    assert redactor.text(once) == once


def test_marks_are_the_same_in_one_run_and_others_in_the_next() -> None:
    one, other = Redactor(), Redactor()
    assert one.text("/data/acme/x.txt") == one.text("/data/acme/x.txt") != other.text("/data/acme/x.txt")
    assert one.text("/data/acme/x.txt") != one.text("/data/other/x.txt")


def test_marks_of_many_things_differ() -> None:
    redactor = Redactor(b"fixed")
    marks = {redactor.host(f"node{number}") for number in range(3000)}
    assert len(marks) == 3000


def test_a_known_name_is_found_in_any_text() -> None:
    redactor = Redactor()
    redactor.learn(["/home/alice/run"])
    assert redactor.text("job_of_alice, ALICE-7") == redactor.text("job_of_{0}, {0}-7").format(
        redactor.mark(Private.USER, "alice")
    )
    assert redactor.text("malice") == "malice"


@pytest.mark.parametrize("common", ["/home/user/x", "/home/ubuntu/x", "/home/train/x"])
def test_names_that_are_words_of_every_trace_spoil_nothing(common: str) -> None:
    redactor = Redactor()
    redactor.learn([common])
    assert redactor.text("train a user on ubuntu") == "train a user on ubuntu"


def test_the_short_name_of_a_host_has_the_mark_of_the_host(found: DiagnoseResult) -> None:
    redactor = Redactor()
    clean = found.redacted(redactor)
    assert redactor.text("worker on gpu-17") == f"worker on {clean.diagnosis.ranks[0].origin.host}"


class Color(StrEnum):
    """A word of ours."""

    RED = "/home/alice/red"


@dataclass(frozen=True)
class Nested:
    """One of each kind of value that a result may hold."""

    texts: list[str]
    table: dict[str, tuple[str, int]]
    path: Path
    color: Color
    times: Any
    nothing: None = None


def test_every_text_is_found_however_deep() -> None:
    times = np.arange(3)
    value = Nested(
        ["/srv/acme/a", "b"], {"/srv/acme/k": ("/srv/acme/v", 1)}, Path("/srv/acme/p.json"), Color.RED, times
    )
    clean = Redactor().redacted(value)
    assert "acme" not in repr(clean)
    assert clean.texts[1] == "b"
    assert (clean.color, clean.times is times) == (Color.RED, True)


def test_what_holds_nothing_private_stays_the_same_object() -> None:
    value = {"a": ("b", [1, 2.5, None])}
    assert Redactor().redacted(value) is value


@pytest.mark.parametrize("value", [{"a", "b"}, np.array(["a"]), object()])
def test_what_is_not_understood_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"which texts are in a .* is not known"):
        Redactor().redacted((value,))


def test_errors_name_no_file() -> None:
    redactor = Redactor()
    with pytest.raises(NotATraceError) as caught, redactor.in_errors(lambda: ["runs/acme", "runs/acme/t.json"]):
        raise NotATraceError("runs/acme/t.json!member.json: not a trace; nor is /srv/acme/t.json")
    assert "acme" not in str(caught.value)
    assert "member" not in str(caught.value)
    assert "not a trace; nor is <folder-" in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("name", ["t", ".", "no", "runs/a"])
def test_a_short_name_spoils_no_message(name: str) -> None:
    said = Redactor(b"fixed").message(f"{name}: cannot be opened; nothing to read.", [name])
    assert re.fullmatch(r"<file-\w{4}>: cannot be opened; nothing to read\.", said)


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError, match="acme"), Redactor().in_errors(list):
        raise ZeroDivisionError("acme")
    with pytest.raises(InputError, match="fine"), Redactor().in_errors(list):
        raise InputError("fine")


def test_a_failure_names_a_member() -> None:
    failure = Failure(path="acme.tar", message="acme.tar!x/secret.json: not a trace")
    clean = Redactor().redacted(failure)
    assert "acme" not in repr(clean)
    assert "secret.json" not in repr(clean)


def test_the_line_that_says_what_was_taken_out() -> None:
    removed = [
        Removed(kind=Private.HOST, count=2, example="<host-3fa2>"),
        Removed(kind=Private.FOLDER, count=1400, example="<folder-3fa2>"),
        Removed(kind=Private.SECRET, count=1, example="<secret-3fa2>"),
    ]
    assert redacted_text(removed) == "redacted: 2 hosts, 1,400 folders, 1 secret"
    assert redacted_text([]) == "redacted: nothing: no text looked private"


def test_every_kind_has_a_word() -> None:
    for kind in Private:
        assert redacted_text([Removed(kind=kind, count=2, example="")]).endswith("s")
