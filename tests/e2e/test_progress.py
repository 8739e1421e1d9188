"""The bar of long work: only on a terminal, only if it takes long, with the time that is left, and gone in the end."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.on_terminal import drawn, without_colours

# Stands in for work that takes long: what the layers below tell, at the pace of the test.
SLOW = """
import argparse, sys, time
from redline.cli.output import show
from redline.cli.show_progress import progress
from redline.progress import ProgressStage

seconds, lang, quiet, background = float(sys.argv[1]), sys.argv[2], "quiet" in sys.argv, "measuring" not in sys.argv
options = argparse.Namespace(quiet=quiet, lang=lang)
try:
    with progress(options, in_background=background) as tell:
        for done in range(8):
            tell(ProgressStage.READ, done, 8)
            time.sleep(seconds / 8)
            if "broken" in sys.argv and done == 6:
                raise KeyboardInterrupt
        tell(ProgressStage.COMBINE, 0, 0)
        time.sleep(seconds / 8)
finally:
    show("the result" + chr(10))
"""
BAR = "\u2501"
HIDE, SHOW, WIPED = "\x1b[?25l", "\x1b[?25h", "\x1b[2K"


@pytest.fixture
def slow(tmp_path: Path) -> list[str]:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    return [sys.executable, str(script)]


def test_long_work_shows_a_bar_that_vanishes(slow: list[str]) -> None:
    text = drawn([*slow, "4", "en"])
    assert "reading traces" in text
    assert BAR in text
    assert "4 / 8" in text
    assert "0:02 left" in without_colours(text)
    assert "combining ranks" in text
    before, after = text.split("the result")
    assert before.count(HIDE) == before.count(SHOW) == 1
    assert before.endswith(WIPED)
    assert after == "\n"


def test_labels_are_in_the_language_of_the_report(slow: list[str]) -> None:
    text = without_colours(drawn([*slow, "3", "zh"]))
    assert "读取 trace" in text
    assert "剩余 0:0" in text


@pytest.mark.parametrize(
    ("words", "environment"),
    [(("0.4", "en"), {}), (("2", "en", "quiet"), {}), (("2", "en"), {"TERM": "dumb"})],
    ids=["short work", "quiet", "no cursor"],
)
def test_nothing_is_drawn(slow: list[str], words: tuple[str, ...], environment: dict[str, str]) -> None:
    assert drawn([*slow, *words], environment=environment) == "the result\n"


def test_nothing_is_drawn_without_a_terminal(slow: list[str]) -> None:
    done = subprocess.run([*slow, "2", "en"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("the result\n", "")


def test_it_never_mixes_with_stdout(slow: list[str], tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    with output.open("wb") as file:
        text = drawn([*slow, "3", "en"], stdout=file.fileno())
    assert BAR in text
    assert output.read_bytes() == b"the result\n"


def test_interrupting_wipes_it_and_brings_the_cursor_back(slow: list[str]) -> None:
    text = drawn([*slow, "3", "en", "broken"])
    assert text.count(HIDE) == text.count(SHOW) == 1
    assert text.index(SHOW) < text.index("the result") < text.index("KeyboardInterrupt")


def test_measurements_are_not_disturbed_by_a_thread(slow: list[str]) -> None:
    """Drawn only when something is told, so at most eight times."""
    text = drawn([*slow, "4", "en", "measuring"], environment={"NO_COLOR": "1"})
    assert 3 <= text.count("reading traces") <= 16
    assert "\x1b[3" not in text
