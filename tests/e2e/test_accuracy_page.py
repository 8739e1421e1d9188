"""The page on the accuracy of plans says what `redline plan validate` says: tables, pictures, and sentences."""

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.plan.serving import load_serving
from redline.plan.accuracy import accuracy_of
from redline.report.document import ReportTable
from redline.report.plan import validation_report as tables
from tests.support.docs import rows_of

if TYPE_CHECKING:
    from scripts import draw_accuracy
else:
    _spec = importlib.util.spec_from_file_location(
        "draw_accuracy", Path(__file__).parents[2] / "scripts/draw_accuracy.py"
    )
    draw_accuracy = sys.modules["draw_accuracy"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(draw_accuracy)

TEXT = draw_accuracy.PAGE.read_text()
WRITTEN = {block[2]: block[0] for block in draw_accuracy.BLOCK.finditer(TEXT)}
HOW = "run `python -m scripts.draw_accuracy`, and read the diff"
# Machines round differently, so that a row may change sides: shares in points, and counts.
POINTS, COUNTS = 0.5, 2


@cache
def shown() -> dict[str, ReportTable]:
    return tables.every(accuracy_of("validation"), brief=True)


def test_every_table_is_on_the_page() -> None:
    assert set(WRITTEN) == set(shown())


@pytest.mark.parametrize("name", WRITTEN)
def test_a_table_says_what_the_command_says(name: str) -> None:
    rows = rows_of(WRITTEN[name])
    assert [row[0] for row in rows] == [row[0] for row in shown()[name].rows], HOW
    for old, new in zip(rows, shown()[name].rows, strict=True):
        for stands, said in zip(old[1:], new[1:], strict=True):
            room = POINTS if said.endswith("%") else COUNTS
            assert _number(stands) == pytest.approx(_number(said), abs=room), f"{old[0]}: {HOW}"


def _number(cell: str) -> float:
    """A share in points, or a count; 0 for words, of which only the first of a row counts."""
    found = re.fullmatch(r"([+-]?[\d,.]+)(?: %)?", cell)
    return float(found[1].replace(",", "")) if found else 0.0


@pytest.mark.parametrize("name", ["step", "memory"])
def test_a_picture_has_every_run(name: str) -> None:
    picture = draw_accuracy.DOCS / "images" / f"accuracy-{name}.svg"
    drawn = "".join(path.get("d", "") for path in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}path"))
    assert drawn.count("h0") == sum(len(one["measured"]) for one in accuracy_of("validation")[f"{name}_points"]), HOW


def test_a_picture_is_drawn_anew_alike() -> None:
    """Dots may move a little: constants are rounded differently elsewhere."""
    for name, new in draw_accuracy.pictures().items():
        old = (draw_accuracy.DOCS / "images" / name).read_text()
        assert _places(old) == pytest.approx(_places(new), abs=2), HOW


def _places(drawn: str) -> list[float]:
    return [float(number) for dot in re.findall(r"M([\d.]+) ([\d.]+)h0", drawn) for number in dot]


def test_repeats_of_the_first_token_are_as_the_page_says() -> None:
    """Rows that should have the same time to the first token: one server, the same prompts, as many in flight."""
    rows, _ = load_serving()
    same: dict[tuple[object, ...], list[float]] = {}
    prompt, flying = np.asarray(rows.traffic.prompt), np.asarray(rows.traffic.concurrency)
    for at, ttft_s in enumerate(rows.measured["ttft_s"]):
        if np.isfinite(ttft_s):
            same.setdefault((rows.names[at], rows.gpu[at], prompt[at], flying[at]), []).append(float(ttft_s))
    spreads = [max(each) / min(each) - 1 for each in same.values() if len(each) > 1]
    assert f"differs by {100 * np.median(spreads):.0f} % in the median" in TEXT
    assert f"({len(spreads)}\n  groups of such runs)" in TEXT
