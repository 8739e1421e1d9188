"""What writers get wrong in JSON is put right, and nothing else is touched."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redline.timeline.problems import Reason
from redline.trace.repair import repairs

SOUND = '{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 2, "ts": 5, "dur": 1, "args": {"a": "b"}}'


def first_that_parses(text: bytes) -> tuple[dict[str, object], set[Reason]]:
    """The first repair that is JSON, and what it put right."""
    for mended, reasons in repairs(text):
        try:
            value: dict[str, object] = json.loads(mended)
        except ValueError:
            continue
        return value, set(reasons)
    raise AssertionError(f"no repair makes JSON of {text!r}")


@pytest.mark.parametrize(
    ("written", "meant", "reason"),
    [
        ("C:\\users\\me", "C:\\users\\me", Reason.LONE_BACKSLASH),  # \u is an escape that lacks its digits
        ("a\\qb", "a\\qb", Reason.LONE_BACKSLASH),
        ("D:\\data\\", "D:\\data\\", Reason.LONE_BACKSLASH),  # the last one swallows the closing quote
        ("two\nlines", "two lines", Reason.CONTROL_CHARACTER),
        ("a\x1b[31mred", "a [31mred", Reason.CONTROL_CHARACTER),
        ("nul\0", "nul ", Reason.CONTROL_CHARACTER),
        ('say "hi" now', 'say "hi" now', Reason.UNESCAPED_QUOTE),
        ('{"key": "v"}', '{"key": "v"}', Reason.UNESCAPED_QUOTE),
        ('"', '"', Reason.UNESCAPED_QUOTE),
    ],
)
def test_names_that_were_not_escaped(written: str, meant: str, reason: Reason) -> None:
    value, reasons = first_that_parses((SOUND % written).encode())
    assert value["name"] == meant
    assert value["args"] == {"a": "b"}
    assert reason in reasons


def test_bytes_that_are_no_text_are_replaced() -> None:
    value, reasons = first_that_parses(SOUND.encode() % b"a\xff\xfeb")
    assert (value["name"], reasons) == ("a\ufffd\ufffdb", {Reason.INVALID_UTF8})


@pytest.mark.parametrize("word", ["inf", "-inf", "nan", "-nan", "NaN", "Infinity", "-Infinity", "N/A", "INF"])
@pytest.mark.parametrize("after", [",", "}", " ,", "\n}"])
def test_words_in_place_of_a_number_are_missing(word: str, after: str) -> None:
    rest = '"ts": 5}' if "," in after else ""
    value, reasons = first_that_parses(f'{{"ph": "X", "dur": {word}{after}{rest}'.encode())
    assert (value["dur"], reasons) == (None, {Reason.NOT_A_NUMBER})


def test_words_inside_lists_are_missing_too() -> None:
    value, _ = first_that_parses(b'{"args": {"values": [1, inf, nan]}}')
    assert value == {"args": {"values": [1, None, None]}}


@pytest.mark.parametrize("word", ["inf", "nan", "N/A"])
def test_such_words_inside_a_text_are_left_alone(word: str) -> None:
    text = f'{{"name": "clamp(x,{word},0)", "dur": inf}}'
    value, _ = first_that_parses(text.encode())
    assert value == {"name": f"clamp(x,{word},0)", "dur": None}


def test_a_key_without_its_opening_quote_is_completed() -> None:
    value, reasons = first_that_parses(b'{"ph": "X", tid": 3, "args": {External id": 4}}')
    assert (value, reasons) == ({"ph": "X", "tid": 3, "args": {"External id": 4}}, {Reason.MISSING_QUOTE})


def test_several_wrongs_in_one_event_are_all_put_right() -> None:
    text = b'{"ph": "X", "name": "C:\\qux \xff", tid": 3, "dur": inf}'
    value, reasons = first_that_parses(text)
    assert value == {"ph": "X", "name": "C:\\qux \ufffd", "tid": 3, "dur": None}
    assert reasons == {Reason.LONE_BACKSLASH, Reason.INVALID_UTF8, Reason.MISSING_QUOTE, Reason.NOT_A_NUMBER}


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(NAMES)
def test_sound_text_is_left_as_it_is(name: str) -> None:
    text = json.dumps({"ph": "X", "name": name, "args": {"x": [name]}}, ensure_ascii=False).encode()
    mended, reasons = next(iter(repairs(text)))
    assert (mended, reasons) == (text, ())


@given(st.binary(max_size=200))
def test_no_text_makes_a_repair_fail(text: bytes) -> None:
    for mended, _ in repairs(b'{"name": "' + text + b'"}'):
        assert isinstance(mended, bytes)


@given(st.text(st.sampled_from("\\qu01/nt "), max_size=20))
@example("\\\\\\")
def test_backslashes_are_doubled_only_where_they_begin_no_escape(name: str) -> None:
    text = f'{{"ph": "X", "name": "{name}", "ts": 5}}'.encode()
    try:
        meant = json.loads(text)["name"]
    except ValueError:
        value, reasons = first_that_parses(text)
        assert Reason.LONE_BACKSLASH in reasons
        assert value["ts"] == 5
    else:
        assert first_that_parses(text) == ({"ph": "X", "name": meant, "ts": 5}, set())
