"""What a terminal shows: its own width, colours that mean something, and plain text where there is no terminal."""

import subprocess
import sys
from pathlib import Path

import pytest

from redline.report.terminal import width_of
from tests.support.on_terminal import drawn, redline, without_colours

TRACES = "tests/data/recorded/slow_loader_rank*"
DIAGNOSE = redline("diagnose", TRACES, "--no-cache", "-q")
JOB = ("--model", "llama-3.1-8b", "--machine", "H100-SXM5-80GB", "--gpus", "64", "--sequence", "8192", "--batch", "512")
PLAN = redline("plan", "train", *JOB, "-q")
BARRED = "import sys; sys.modules['rich'] = None; from redline.cli import main; sys.exit(main(sys.argv[1:]))"


def widest(text: str) -> int:
    return max(map(width_of, without_colours(text).split("\n")))


def words(text: str) -> list[str]:
    """Without bars and breaks, which differ with the width."""
    return [word for word in without_colours(text).split() if word.isascii()]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_report_is_as_wide_as_the_terminal(language: str) -> None:
    narrow, usual, wide = (drawn([*DIAGNOSE, "--lang", language], columns=columns) for columns in (80, 100, 160))
    assert 70 < widest(narrow) <= 80
    assert 90 < widest(usual) <= 100
    assert 130 < widest(wide) <= 160
    if language == "en":
        left = iter(words(narrow))
        assert all(word in left for word in words(usual))  # nothing is dropped for want of width


@pytest.mark.parametrize(
    "command",
    [
        [*DIAGNOSE, "--kernels", "--collectives", "--ranks", "--host", "--steps", "--findings"],
        redline("inspect", TRACES, "--no-cache", "-q"),
        redline("hardware"),
        redline("hardware", "H100-SXM5-80GB"),
        redline("explain", "RL-H01"),
        redline("explain", "--lang", "zh"),
        [*PLAN, "--lang", "zh", "--tokens", "1T"],
    ],
    ids=["diagnose", "inspect", "hardware", "one record", "explain", "all findings", "plan"],
)
def test_nothing_is_wider_than_80_columns(command: list[str]) -> None:
    text = drawn(command, columns=80)
    assert "Traceback" not in text
    assert 50 < widest(text) <= 80


def test_tables_lose_no_cell_at_80_columns() -> None:
    command = redline("inspect", TRACES, "--no-cache", "-q")
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert set(piped.split()) <= set(without_colours(drawn(command, columns=80)).split())


def test_colours_mean_something() -> None:
    text = drawn(DIAGNOSE)
    assert "\x1b[1;33mCommunication-bound" in text
    assert "\x1b[32mFix: " in text
    assert "\x1b[36mverdict   " in text
    healthy = drawn(redline("diagnose", "no-such-folder"))
    assert healthy.startswith("\x1b[1;31mredline: no-such-folder")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}], ids=str)
def test_colours_can_be_switched_off(environment: dict[str, str]) -> None:
    text = drawn(DIAGNOSE, columns=80, environment=environment)
    assert "\x1b" not in text
    assert 70 < widest(text) <= 80
    assert "\x1b" not in drawn(redline("explain", "RL-H01"), environment=environment)


@pytest.mark.parametrize("command", [DIAGNOSE, PLAN, redline("hardware")], ids=["diagnose", "plan", "hardware"])
def test_pipes_and_files_get_plain_text_of_100_columns(command: list[str], tmp_path: Path) -> None:
    piped = subprocess.run(command, capture_output=True, check=True).stdout
    redirected = tmp_path / "redirected.txt"
    with redirected.open("wb") as file:
        on_stderr = drawn(command, columns=60, stdout=file.fileno())
    assert redirected.read_bytes() == piped
    assert b"\x1b" not in piped
    assert on_stderr == ""
    if command is DIAGNOSE:
        named = tmp_path / "named.txt"
        drawn([*command, "-o", str(named)], columns=80)
        assert named.read_bytes() == piped


def test_rich_is_not_needed_where_there_is_no_terminal() -> None:
    for verb in (["--help"], ["diagnose", "--help"], DIAGNOSE[3:], ["explain", "RL-H01"]):
        done = subprocess.run([sys.executable, "-c", BARRED, *verb], capture_output=True, text=True, check=True)
        assert done.stdout


def test_names_from_files_cannot_colour_or_move(tmp_path: Path) -> None:
    nasty = tmp_path / "a\x1b[31m\ufdd0b"
    text = drawn(redline("inspect", str(nasty)), environment={"PYTHONUTF8": "1"})
    assert "\x1b[31m" not in text
    assert "a?[31m" in text


@pytest.mark.parametrize("words", [[], ["run"], ["calibrate"], ["plan"], ["plan", "train"], ["diagnose"]], ids=" ".join)
def test_help_fits_80_columns_and_says_the_same(words: list[str]) -> None:
    command = redline(*words, "--help")
    text = drawn(command, columns=80)
    assert 60 < widest(text) <= 80
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert text.split() == piped.split()
