"""JSON that a terminal can show and every program can read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.report.data import json_text
from redline.report.terminal import visible_lines


def test_letters_stay_and_hidden_ones_are_escaped() -> None:
    text = json_text({"name": "käse 中文 😀 \x1b\x7f\x9b\u2028\u202e\ud800\U000e0001"})
    assert text.splitlines()[1] == ('  "name": "käse 中文 😀 \\u001b\\u007f\\u009b\\u2028\\u202e\\ud800\\udb40\\udc01"')


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_read_is_what_was_written(record: dict[str, str]) -> None:
    text = json_text(record)
    assert json.loads(text) == record
    assert visible_lines(text) == text


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_in_json_is_never_written(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"value": number})
