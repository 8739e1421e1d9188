"""Answers are within their bound, whatever stands in them, and say what they leave out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.mcp.bounded_answer import MOST_BYTES, BoundedAnswer, RowPage, answer_text, escaped, recorded
from redline.report.terminal import is_hidden
from tests.support.made_hostile import HOSTILE_NAMES, SECRET


@given(st.lists(st.text(max_size=400), max_size=60), st.integers(0, 70), st.integers(0, 5))
def test_every_answer_is_within_the_bound_and_counts_its_rows(names: list[str], offset: int, least: int) -> None:
    rows = [{"name": recorded(name), "share": 1 / 3} for name in names]
    page = RowPage(rows=rows, offset=offset, ask={"paths": ["a"]}, least=least)
    other = RowPage(rows=rows, most=3)
    text = answer_text(BoundedAnswer(facts={"tool": "x"}, pages={"rows": page, "others": other}))
    assert len(text.encode()) <= MOST_BYTES
    assert not any(map(is_hidden, text))
    record = json.loads(text)
    shown = record["rows"]
    if len(shown) < len(rows):
        told = record["left_out"]["rows"]
        assert told == {
            "shown": len(shown),
            "offset": offset,
            "of": len(rows),
            "ask": {"paths": ["a"], "offset": offset + len(shown)} if offset + len(shown) < len(rows) else None,
        }


def test_pages_together_show_every_row_once() -> None:
    rows = [{"number": number, "text": "y" * 300} for number in range(100)]
    seen: list[int] = []
    ask: dict[str, Any] | None = {"offset": 0}
    while ask is not None:
        answer = BoundedAnswer(facts={}, pages={"rows": RowPage(rows=rows, offset=ask["offset"], ask={})})
        record = json.loads(answer_text(answer))
        seen += [row["number"] for row in record["rows"]]
        ask = record["left_out"]["rows"]["ask"]
    assert seen == list(range(100))


def test_numbers_that_json_does_not_have_are_null() -> None:
    assert json.loads(answer_text(BoundedAnswer(facts={"a": float("nan"), "b": float("inf"), "c": 1.23456789}))) == {
        "a": None,
        "b": None,
        "c": 1.23457,
    }


def test_facts_that_do_not_fit_are_a_bug_and_said_so() -> None:
    with pytest.raises(ValueError, match="the facts of an answer alone"):
        answer_text(BoundedAnswer(facts={str(number): "z" * 100 for number in range(200)}))


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_marked_short_and_harmless(name: str) -> None:
    marked = recorded(name)
    assert list(marked) == ["recorded"]
    assert not any(map(is_hidden, marked["recorded"]))
    assert len(marked["recorded"]) < 400
    assert SECRET not in marked["recorded"]


def test_escapes_can_be_read() -> None:
    assert escaped("a\x1b[2J\n\u202eb\U000e0041") == "a\\u001b[2J\\u000a\\u202eb\\U000e0041"
    assert recorded("x" * 5_000)["recorded"] == "x" * 120 + "... (5,000 letters)"
