"""docs/reference/lake.md says what the code does: columns, questions, keys of the JSON."""

import re

import pytest

from redline.cli import lake
from redline.lake.questions import QUESTIONS
from redline.lake.schema import COLUMNS, FINDING_FIELDS, OPERATOR_FIELDS, SCHEMA_VERSION
from redline.report.lake import HEADINGS, TITLES
from tests.support.command_line import ROOT

PAGE = (ROOT / "docs" / "reference" / "lake.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_schema_is_documented() -> None:
    nested = [
        (name, kind, meaning)
        for fields in (FINDING_FIELDS, OPERATOR_FIELDS)
        for name, (kind, meaning) in fields.items()
    ]
    columns = [(column.name, column.type, column.meaning) for column in COLUMNS]
    assert ROW.findall(section("Schema")) == [*columns, *nested]
    assert f"This is schema {SCHEMA_VERSION};" in PAGE


def test_the_questions_are_documented_and_named_everywhere() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", section("Questions"), re.MULTILINE)
    assert documented == list(QUESTIONS) == list(lake.QUESTIONS) == list(TITLES)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_column_has_a_heading(question: str) -> None:
    shown = {column.name for column in QUESTIONS[question].columns if column.kind != "hidden"}
    assert shown <= set(HEADINGS)
