"""What keeps a report harmless: JSON that no text can leave, scripts by their hash, nothing loaded from anywhere."""

import base64
import hashlib
import json

import pytest
from markupsafe import Markup

from redline.report.html.policy import embedded_json, policy_of, script_of, shown
from redline.report.terminal import visible_lines

TEXTS = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "&lt;b&gt;",
    "a\u2028b\u2029c",
    "\ud800 alone",
    "\x00\x1f\"'\\",
    "核",
]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_comes_back_and_none_can_leave_its_element(text: str) -> None:
    embedded = str(embedded_json({"name": text}))
    assert json.loads(embedded) == {"name": visible_lines(text)}
    assert embedded.isascii()
    assert not set("<>&\u2028\u2029") & set(embedded)


def test_a_template_shows_texts_without_hidden_letters_and_markup_as_it_is() -> None:
    assert shown("a\u202eb\x1b") == "a?b?"
    assert shown(Markup("a\tb")) == Markup("a\tb")
    assert shown(7) == 7


def test_numbers_that_json_has_not_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        embedded_json(float("nan"))


def test_line_breaks_are_those_that_the_browser_hashes() -> None:
    assert str(script_of("a\r\nb\rc")) == "a\nb\nc"


@pytest.mark.parametrize("text", ["x = '</SCRIPT>'", "if (a<!--b) {}"])
def test_a_script_that_would_end_its_element_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a page"):
        script_of(text)


def test_only_scripts_of_ours_run_and_nothing_is_loaded() -> None:
    rules = dict(rule.split(" ", 1) for rule in policy_of(["one()", "two()"]).split("; "))
    expected = [base64.b64encode(hashlib.sha256(text).digest()).decode() for text in (b"one()", b"two()")]
    assert rules == {
        "default-src": "'none'",
        "script-src": " ".join(f"'sha256-{digest}'" for digest in expected),
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
