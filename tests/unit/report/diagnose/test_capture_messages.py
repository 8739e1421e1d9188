"""What the record of a run says of the traces that are diagnosed, and where each format says it."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from redline.capture.captured import Absent, Captured, captured, captured_of
from redline.capture.run_record import NAME, read_record, to_json
from redline.errors import InputError
from redline.report.diagnose import json as diagnose_json
from redline.report.diagnose.capture_messages import remarks, window_line
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.screen import screen_of
from redline.report.language import speaking
from redline.verbs.diagnose import diagnose
from tests.support.run_records import MS, rank, run, window
from tests.support.traces.synthetic import JobSpec, write_job

SLOWED = (
    "captured steps took 1.20 x as long as the other 997 (12.00 ms against 10.00 ms), by recording or other load; all "
    "shares are of captured steps"
)


def one_of(*ranks: Any, number: int = 1, **changed: Any) -> Captured:
    found = captured(run(*ranks, **changed), number)
    assert found is not None
    return found


def said(found: Captured) -> list[str]:
    return list(remarks(found))


def test_traces_that_were_deleted_and_digests_that_are_missing_are_named() -> None:
    digested = rank(0, windows=(window(state="digested", slowdown=1.0),))
    written = rank(1, windows=(window(slowdown=1.0),))
    assert said(one_of(digested, written)) == ["no trace of rank 0: it was deleted once it was digested"]
    from_digests = captured(run(digested, written), 1, read={0, 1})
    assert from_digests is not None
    assert said(from_digests) == []
    without_one = captured(run(digested, written), 1, read={0})
    assert without_one is not None
    assert said(without_one) == ["no trace of rank 1: it was not digested"]


@pytest.mark.parametrize("folder", ["window-1", "digests/window-1"])
def test_a_window_is_known_by_the_folder_of_its_traces_and_of_its_digests(tmp_path: Path, folder: str) -> None:
    (tmp_path / NAME).write_text(json.dumps(to_json(run(rank()))))
    name = "rank-0.digest" if "digests" in folder else "rank-0.trace.json.gz"
    found = captured_of([tmp_path / folder / name])
    assert found is not None
    assert (found.window, found.restart, found.absent) == (1, 0, ())
    mixed = captured_of([tmp_path / "digests/window-1/rank-0.digest", tmp_path / "window-1/rank-1.trace.json.gz"])
    assert mixed is not None
    assert captured_of([tmp_path / "digests/window-1/rank-0.digest", tmp_path / "window-2/rank-1.json.gz"]) is None


def test_capturing_made_steps_longer() -> None:
    found = one_of(rank())
    assert window_line(found) == "window 1 of 1: steps 10-12 of 1,000 in the run"
    assert said(found) == [SLOWED]


def test_a_small_slow_down_is_not_worth_a_sentence() -> None:
    assert said(one_of(rank(windows=(window(slowdown=1.04),)))) == []


def test_steps_that_were_chosen_for_being_slow() -> None:
    settings = {"capture": True, "after": 8, "steps": 3, "when": "step_time>2*median"}
    assert said(one_of(rank(), settings=settings))[0].endswith(": they were chosen for being slow")


def test_the_slow_down_is_that_of_the_middle_rank() -> None:
    windows = [window(slowdown=times, length_ns=round(30 * times) * MS) for times in (1.0, 1.5, 9.0)]
    found = one_of(*(rank(number, windows=(one,)) for number, one in enumerate(windows)))
    assert (found.slowdown, found.captured_step_ns, found.usual_step_ns) == (1.5, 15 * MS, 10 * MS)


def test_ranks_without_a_trace_and_why() -> None:
    ranks = [
        rank(0),
        rank(1, windows=(window(state="no space"),)),
        rank(2, windows=(), finished=False),
        rank(3, windows=(), steps=5),
        rank(4, windows=(), notes=({"code": "profiler-taken", "text": "x", "count": 1},)),
    ]
    found = one_of(*ranks, world=7)
    assert found.absent == (
        Absent(why="no space", ranks=(1,)),
        Absent(why="killed", ranks=(2,)),
        Absent(why="not reached", ranks=(3,)),
        Absent(why="not captured", ranks=(4,)),
        Absent(why="not watched", ranks=(5, 6)),
    )
    assert said(found)[1:] == [
        "no trace of rank 1: no space on the disk, or in --max-disk",
        "no trace of rank 2: killed before it was written",
        "no trace of rank 3: it ended before this window",
        "no trace of rank 4: this window was skipped there",
        "no trace of ranks 5-6: nothing was recorded of it",
    ]


def test_a_window_that_was_cut_short() -> None:
    short = window(steps=1, slowdown=None)
    assert said(one_of(rank(windows=(short,)))) == [
        "the window was cut short: 1 of 3 steps, the last one maybe incomplete",
    ]
    text = "window 1 was cut short: the process was asked to end"
    noted = rank(windows=(short,), notes=({"code": "cut-short", "text": text, "count": 1},))
    assert said(one_of(noted)) == [text]
    other = rank(windows=(window(number=2, slowdown=None),), notes=noted.notes)
    assert said(one_of(other, number=2)) == []


def test_a_step_that_never_ended_is_not_named() -> None:
    assert window_line(one_of(rank(steps=11, windows=(window(steps=3),)))) == (
        "window 1 of 1: steps 10-11 of 11 in the run"
    )


def test_one_of_several_windows_and_after_a_restart() -> None:
    windows = tuple(window(number=number, first_step=100 * number, steps=1) for number in (1, 2, 3))
    assert window_line(one_of(rank(windows=windows), number=2)) == "window 2 of 3: steps 200 of 1,000 in the run"
    found = captured(run(rank(), rank(restart=1, steps=50)), 1, restart=1)
    assert found is not None
    assert window_line(found) == "window 1 of 1 after restart 1: steps 10-12 of 50"


def test_a_window_that_the_record_does_not_know() -> None:
    assert captured(run(rank()), 7) is None
    assert captured(run(), 1) is None


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `redline run` leaves one, with two ranks of three that have a trace."""
    folder = tmp_path_factory.mktemp("runs") / "train"
    write_job(JobSpec(ranks=2, steps=3, layers=1), folder / "window-1")
    for number, trace in enumerate(sorted((folder / "window-1").glob("*.json.gz"))):
        trace.rename(folder / "window-1" / f"rank-{number}.trace.json.gz")
    (folder / "window-1" / "truth.json").unlink(missing_ok=True)
    record = run(rank(), rank(1), rank(2, windows=(window(state="killed"),), finished=False))
    (folder / NAME).write_text(json.dumps(to_json(record)))
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> DiagnoseResult:
    return diagnose(folder)


@pytest.mark.parametrize("named", ["", "window-1", "window-1/rank-0.trace.json.gz"])
def test_the_record_is_found_from_the_folder_the_window_and_a_trace(folder: Path, named: str) -> None:
    found = diagnose(folder / named)
    assert found.captured is not None
    assert found.captured.absent == (Absent(why="killed", ranks=(2,)),)


def test_traces_of_several_folders_or_of_no_run_have_no_record(folder: Path, tmp_path: Path) -> None:
    traces = sorted((folder / "window-1").glob("*.gz"))
    assert captured_of(traces) is not None
    assert captured_of([*traces, tmp_path / "other.json"]) is None
    assert captured_of([tmp_path / "window-x" / "rank-0.json"]) is None
    assert captured_of([tmp_path / "window-1" / "rank-0.json"]) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "run"}', '{"kind": "digest", "schema_version": 1}'])
def test_a_damaged_record_does_not_stop_a_diagnosis(folder: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "window-1").symlink_to(folder / "window-1")
    (tmp_path / NAME).write_text(text)
    assert diagnose(tmp_path / "window-1").captured is None


def test_a_record_that_cannot_be_read_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{")
    with pytest.raises(InputError, match=r"run\.json is damaged, or not the record of a run: "):
        read_record(tmp_path / NAME)


def test_what_was_written_is_read_again(folder: Path) -> None:
    assert json.loads(json.dumps(to_json(read_record(folder / NAME)))) == json.loads((folder / NAME).read_text())


def test_every_format_says_it(found: DiagnoseResult) -> None:
    lost = "no trace of rank 2: killed before it was written"
    text = " ".join(found.rendered("text").split())
    assert "captured window 1 of 1: steps 10-12 of 1,000 in the run" in text
    assert SLOWED in text
    assert lost in text
    markdown = found.rendered("md")
    assert "- captured: window 1 of 1: steps 10-12 of 1,000 in the run" in markdown
    assert f"- {SLOWED}" in markdown
    html = found.rendered("html")
    assert "steps 10-12" in html
    assert "of 1,000; window 1 of 1" in html
    assert lost in html.replace("\u00a0", " ")
    record = json.loads(diagnose_json.render(found))["captured"]
    assert set(record) == {field.name for field in fields(Captured)}
    assert record["absent"] == [{"why": "killed", "ranks": [2]}]
    assert "no trace of rank 2" in found._repr_html_()


def test_redaction_keeps_the_numbers(found: DiagnoseResult) -> None:
    assert found.redacted().captured == found.captured


def test_without_a_record_nothing_is_said(found: DiagnoseResult) -> None:
    without = replace(found, captured=None)
    assert "captured" not in dict(screen_of(without).facts)
    assert json.loads(diagnose_json.render(without))["captured"] is None


def test_in_chinese(found: DiagnoseResult) -> None:
    assert found.captured is not None
    with speaking("zh"):
        assert "captured" not in " ".join(said(replace(found.captured, condition="x")))


# --- a record that anybody may have written ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"world": 10**12}, "world is 1000000000000"),
        ({"settings": {"steps": "many"}}, "settings.steps is 'many'"),
        ({"settings": {"steps": -1}}, "settings.steps is -1"),
    ],
)
def test_a_record_that_cannot_be_is_refused_in_a_line(changes: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    path = _changed(changes, tmp_path)
    with pytest.raises(InputError) as caught:
        read_record(path)
    assert str(caught.value) == f"{path}: not a sound record of a run: {wrong}. Diagnose its traces without it"


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"ranks": [{"steps": -(2**63)}]}, "ranks[].steps = -9.22e+18 is out of range"),
        (
            {"ranks": [{"windows": [{"length_ns": 2**63}]}]},
            "ranks[].windows[].length_ns = 9.22e+18 is out of range",
        ),
    ],
)
def test_a_record_with_a_number_beyond_all_limits_is_refused(
    changes: dict[str, Any], wrong: str, tmp_path: Path
) -> None:
    path = _changed(changes, tmp_path)
    with pytest.raises(InputError) as caught:
        read_record(path)
    assert f"{path} is damaged, or not the record of a run: {wrong}; " in str(caught.value)


def _changed(changes: dict[str, Any], folder: Path) -> Path:
    content = json.loads(json.dumps(to_json(run(rank()))))
    for key, value in changes.items():
        _put(content, key, value)
    path = folder / NAME
    path.write_text(json.dumps(content))
    return path


def _put(holder: Any, key: Any, value: Any) -> None:
    """Into what is there, field by field."""
    if isinstance(value, list):
        for place, one in enumerate(value):
            for name, inner in one.items():
                _put(holder[key][place], name, inner)
    else:
        holder[key] = value


def test_a_record_that_nests_without_end_or_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text('{"a":' + "[" * 100_000)
    with pytest.raises(InputError, match="is damaged, or not the record of a run"):
        read_record(path)
    with pytest.raises(InputError, match="is a folder; give the name of an ordinary file"):
        read_record(tmp_path)
