"""A search as a page, Markdown, JSON and CSV: complete, and nothing in a name or an error breaks out."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from redline.errors import OutputError, UsageError
from redline.numerics import Numerics
from redline.report.language import speaking
from redline.report.tune.ladder import ladder_rows
from redline.report.tune.page import ladder_chart
from redline.report.tune.tune_report import TuneReport
from redline.tuning.script_diff import ScriptDiff, UnplacedLever
from redline.tuning.tune_result import Objective, Rejected, Rejection, TuneResult
from tests.support.browsing import PAYLOADS
from tests.support.made_tunings import (
    FASTER,
    LESS_MEMORY,
    NOTHING,
    ONE,
    REJECTED,
    candidate,
    failed,
    nothing_changed,
    numbers,
    rung,
    trial,
)

ALL = [("faster", FASTER), ("nothing", NOTHING), ("one", ONE), ("memory", LESS_MEMORY)]


def _unplaced(payload: str) -> tuple[UnplacedLever, ...]:
    return (
        UnplacedLever(lever="malloc-keep", why=payload, lines=f"X={payload}"),
        UnplacedLever(lever="workers=2", why=payload, lines="two\nlines"),
    )


def _hostile(payload: str) -> TuneResult:
    untouched = nothing_changed("gc-freeze", payload)
    wrong = numbers(Numerics.SEMANTICS, first=payload, notes=(payload,))
    rejected = (
        Rejected(candidate=candidate("fused"), why=Rejection.FAILED, trial=failed(payload)),
        Rejected(candidate=candidate("foreach"), why=Rejection.CONFLICT, text=payload),
        Rejected(candidate=candidate("workers=2"), why=Rejection.WRONG_NUMBERS, trial=trial(-0.1), numbers=wrong),
        Rejected(candidate=candidate("gc-freeze"), why=Rejection.NOTHING_CHANGED, trial=untouched),
        Rejected(candidate=candidate(f"env:X={payload}"), why=Rejection.NO_TIME),
    )
    return replace(
        FASTER,
        command=f"python {payload}",
        folder=Path(payload.replace("/", "_")),
        limiting_now=payload,
        diff=ScriptDiff(patch=payload, placed=(payload,), unplaced=_unplaced(payload)),
        written=(f"{payload}.diff",),
        ladder=replace(FASTER.ladder, rejected=rejected),
    )


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("name", "result"), ALL)
def test_the_page_names_every_lever(name: str, result: TuneResult, language: str) -> None:
    with speaking(language):
        page = TuneReport(result=result).rendered("html")
    tried = [rung.candidate for rung in result.ladder.rungs] + [lever.candidate for lever in result.ladder.rejected]
    assert all(candidate.name in page for candidate in tried)
    assert ("ladder-bar" in page.split("</style>")[1]) is (name != "nothing")


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_nothing_breaks_out_of_the_page(payload: str) -> None:
    page = TuneReport(result=_hostile(payload)).rendered("html")
    plain = TuneReport(result=_hostile("plain")).rendered("html")
    tags = re.compile(r"<[a-zA-Z/!][^>]*>")
    body, plain_body = (text.split("</style>")[1].split('<script type="application/json"')[0] for text in (page, plain))
    names = [re.match(r"<[/!]?\w*", tag)[0] for tag in tags.findall(body)]  # type: ignore[index]
    assert names == [re.match(r"<[/!]?\w*", tag)[0] for tag in tags.findall(plain_body)]  # type: ignore[index]


def test_bars_go_down_the_rungs_and_the_whole_ends_where_it_was_measured() -> None:
    chart = ladder_chart(ladder_rows(FASTER), Objective.TIME)
    assert chart is not None
    bars = chart["bars"]
    lengths = [bar["length"] for bar in bars]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == pytest.approx(100 / 1.02, abs=0.01)
    assert lengths[-1] == pytest.approx(39.8 / 1.02, abs=0.5)
    for bar in bars:
        assert bar["low"] <= bar["length"] <= bar["high"]
    assert [bar["before"] for bar in bars[1:-1]] == lengths[:-2]
    assert bars[-1]["before"] == lengths[0]
    assert [bar["is_whole"] for bar in bars] == [False] * 4 + [True]
    assert chart["beside"] == "peak memory"


def test_bars_of_memory_have_the_step_beside_them() -> None:
    chart = ladder_chart(ladder_rows(LESS_MEMORY), Objective.MEMORY)
    assert chart is not None
    assert [bar["amount"] for bar in chart["bars"]] == ["1.24 GB", "760 MB", "690 MB", "692 MB"]
    assert [bar["beside"] for bar in chart["bars"]] == ["78.40 ms", "99.10 ms", "99.40 ms", "99.30 ms"]


def test_without_a_rung_there_is_no_picture() -> None:
    assert ladder_chart(ladder_rows(NOTHING), Objective.TIME) is None


def test_an_open_interval_stays_in_the_picture() -> None:
    few = tuple(replace(rung, trial=trial(-0.3, pairs=2)) for rung in FASTER.ladder.rungs)
    chart = ladder_chart(ladder_rows(replace(FASTER, ladder=replace(FASTER.ladder, rungs=few))), Objective.TIME)
    assert chart is not None
    assert (chart["bars"][1]["low"], chart["bars"][1]["high"]) == (0, 100)


def test_names_in_sentences_are_shown_as_code() -> None:
    page = TuneReport(result=FASTER).rendered("html")
    assert "<code>--allow lower-precision</code>" in page
    assert "<code>blocks.3.attention.weight</code>" in page


def test_the_page_has_the_patch_and_the_lines_to_paste() -> None:
    page = TuneReport(result=FASTER).rendered("html")
    assert "+optimizer = AdamW(model.parameters(), fused=True)" in page
    assert "loader = DataLoader(dataset, num_workers=4, persistent_workers=True)" in page
    with speaking("zh"):
        assert "与普通循环" in TuneReport(result=FASTER).rendered("html")


# --- Markdown, JSON, CSV ----------------------------------------------------------------------------------------------


def test_markdown() -> None:
    text = TuneReport(result=FASTER).rendered("md")
    assert text.startswith("## Faster: 60.3 % less time (95 %: -60.9 % to -59.8 %). Step: 31.11 ms instead of 78.22 ms")
    assert "| 2 compile=blocks | 35.0 % | 34.6 % to 35.5 % | 35.18 ms | 1.31 GB | sums in another order |" in text
    assert "<details><summary>not kept (10)</summary>" in text
    assert "`redline run --with redline-tune/tuned.toml -- python train.py --epochs 3`" in text


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_nothing_breaks_out_of_markdown(payload: str) -> None:
    text = TuneReport(result=_hostile(payload)).rendered("md")
    code = re.compile(r"`[^`\n]*`")
    lines = [line if line.startswith("<") else re.sub(r"\\.", "", code.sub("", line)) for line in text.split("\n")]
    outside = "\n".join(lines)
    assert set(re.findall(r"<[^>\n]*>", outside)) <= {"<details>", "<summary>", "</summary>", "</details>"}


@pytest.mark.parametrize(("name", "result"), ALL)
def test_json_is_complete_and_in_english(name: str, result: TuneResult) -> None:
    with speaking("zh"):
        record = json.loads(TuneReport(result=result).rendered("json"))
    assert (record["kind"], record["schema_version"]) == ("tuning", 1)
    assert record["text"].isascii()
    assert record["levers"] == list(result.ladder.levers)
    assert record["proven"] is (name != "nothing")
    assert [lever["why"] for lever in record["rejected"]] == [str(lever.why) for lever in result.ladder.rejected]
    assert len(record["rungs"]) == len(result.ladder.rungs)
    assert (record["whole"] is None) is (name == "nothing")


def test_json_of_a_rung_has_its_pairs() -> None:
    record = json.loads(TuneReport(result=FASTER).rendered("json"))
    assert len(record["rungs"][0]["trial"]["time"]["pairs"]) == 14
    assert record["rungs"][0]["change"]["change"] == pytest.approx(-0.31, abs=0.01)
    assert record["whole"]["disagrees"] is False


def test_json_of_memory_has_every_run() -> None:
    record = json.loads(TuneReport(result=LESS_MEMORY).rendered("json"))
    assert record["rungs"][0]["memory"]["after_bytes"] == [760_000_000, 761_000_000, 759_000_000]
    assert record["whole"]["peak_bytes"] == 692_000_000


def test_json_has_no_bound_where_there_is_none() -> None:
    few = (replace(FASTER.ladder.rungs[0], trial=trial(-0.3, pairs=2)),)
    record = json.loads(TuneReport(result=replace(FASTER, ladder=replace(FASTER.ladder, rungs=few))).rendered("json"))
    assert (record["rungs"][0]["change"]["low"], record["rungs"][0]["change"]["high"]) == (None, None)


def test_markdown_and_json_have_the_lines_to_paste() -> None:
    assert "loader = DataLoader(dataset, num_workers=4, persistent_workers=True)" in TuneReport(result=FASTER).rendered(
        "md"
    )
    record = json.loads(TuneReport(result=FASTER).rendered("json"))
    assert [lever["lever"] for lever in record["pasted"]] == ["workers=2"]


def test_csv_is_the_ladder() -> None:
    rows = list(csv.DictReader(io.StringIO(TuneReport(result=FASTER).rendered("csv"))))
    assert [row["rung"] for row in rows] == ["start", "1", "2", "3", "whole"]
    assert [row["lever"] for row in rows] == ["", "workers=2", "compile=blocks", "fused", ""]
    assert float(rows[-1]["step_s"]) == pytest.approx(0.0311, abs=0.0001)
    assert rows[1]["peak_bytes"] == "1260000000"


# --- the result itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "html", "json", "md", "txt"])
def test_it_saves_itself(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"tuning.{ending}"
    TuneReport(result=FASTER).save(path)
    assert path.read_text(encoding="utf-8") == TuneReport(result=FASTER).rendered("text" if ending == "txt" else ending)


@pytest.mark.parametrize("ending", ["json", "txt"])
def test_what_was_measured_is_not_replaced_unasked(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"tuning.{ending}"
    path.write_text(TuneReport(result=NOTHING).rendered("json"))
    with pytest.raises(OutputError):
        TuneReport(result=FASTER).save(path)
    TuneReport(result=FASTER).save(path, force=True)


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a search is saved as \.csv, \.html, \.json, \.md, \.txt"):
        TuneReport(result=FASTER).save(tmp_path / "tuning.pdf")


def test_it_shows_its_verdict() -> None:
    assert repr(TuneReport(result=FASTER)).startswith("<redline tuning: Faster: 60.3 % less time (95 %:")
    assert repr(TuneReport(result=NOTHING)).startswith(
        "<redline tuning: No lever was proven better with correct numbers."
    )
    assert len(REJECTED) > len(Rejection)


def test_a_page_does_not_say_which_of_several_levers_gains() -> None:
    both = replace(rung("fused", -0.15, finding="RL-H08"), others=(candidate("workers=2", "RL-D01"),))
    result = replace(FASTER, ladder=replace(FASTER.ladder, rungs=(both,)))
    page = TuneReport(result=result).rendered("html")
    assert json.loads(TuneReport(result=result).rendered("json"))["rungs"][0]["finding"] == "RL-H08 + RL-D01"
    assert "fused + workers=2" in page
    assert "which of them it is that gains is not known" in page
