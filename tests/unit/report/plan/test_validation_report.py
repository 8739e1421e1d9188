"""The accuracy of plans as text and JSON: every table, beside other planners, and it fits a screen."""

import json

import pytest

from redline.report.data import json_text
from redline.report.display import PLAIN_COLUMNS
from redline.report.language import speaking
from redline.report.plan import validation_report as tables
from redline.report.plan.validation_report import document_of
from redline.report.plan.validation_report import record_of as as_record
from redline.report.terminal import text_of, width_of
from tests.support.command_line import ROOT
from tests.support.made_plans import validation

GOLDEN = ROOT / "tests" / "golden" / "plan"


@pytest.mark.parametrize(("golden", "language"), [("validate", "en"), ("validate.zh", "zh")])
def test_text(golden: str, language: str, update_golden: bool) -> None:
    with speaking(language):
        text = text_of(document_of(validation()))
    path = GOLDEN / f"{golden}.txt"
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(width_of, text.split("\n"))) <= PLAIN_COLUMNS


def test_verdicts_are_shares_of_what_happened() -> None:
    shown = tables.verdicts(validation())
    assert shown.rows == (("fits", "835", "30"), ("does not fit", "44", "735"))
    assert shown.notes[0] == (
        "3.9 % of the runs that failed were predicted to fit; 5.0 % of those that ran were predicted not to"
    )


def test_serving_in_brief_has_a_line_for_each_figure_and_what_was_left_out() -> None:
    brief, every = (tables.serving(validation(), brief=brief).rows for brief in (True, False))
    assert [row[2] for row in brief] == 2 * ["odd half", "model", "GPU", "GPU family"]
    assert len(every) == 12
    assert {row[2] for row in every} - {row[2] for row in brief} == {"speculative decoding", "B200-SXM"}


def test_a_group_that_was_left_out_has_the_figures_of_its_engine() -> None:
    assert tables.serving_groups(validation()).rows == (
        ("SGLang", "model", "GLM-4.6", "12", "-30.0 %", "+12.0 %", "-", "-"),
        ("vLLM", "GPU", "H100", "4", "-", "-", "-5.0 %", "+20.0 %"),
    )


def test_the_json_is_whole() -> None:
    record = json.loads(json_text(as_record(validation())))
    assert record == as_record(validation())
    assert record["kind"] == "plan-validation"
    assert record["step"]["dense"]["median"] == 0.05
    assert record["memory"]["verdicts"]["false_fits"] == 30
    assert (record["schema_version"], record["step"]["siblings"]) == (3, 0.984)
