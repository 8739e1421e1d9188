"""The table of worked plans says what the commands of its page say."""

import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.docs import rows_of

if TYPE_CHECKING:
    from scripts import renew_worked_plans
else:
    _path = Path(__file__).parents[2] / "scripts" / "renew_worked_plans.py"
    _spec = importlib.util.spec_from_file_location("renew_worked_plans", _path)
    renew_worked_plans = sys.modules["renew_worked_plans"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(renew_worked_plans)

HOW = "run `python -m scripts.renew_worked_plans`, and read the diff"
CLOSE = 0.06  # what rounding to two digits leaves


def test_the_table_says_what_the_commands_say() -> None:
    page = renew_worked_plans.PAGE.read_text()
    block = renew_worked_plans.BLOCK.search(page)
    assert block
    written, found = rows_of(block[0]), renew_worked_plans.rows(page)
    assert [row[0] for row in written] == [row[0] for row in found], HOW
    for old, new in zip(written, found, strict=True):
        assert _numbers(old[2]) == pytest.approx(_numbers(new[2]), rel=CLOSE, abs=0.1), f"{old[0]}: {HOW}"


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]
