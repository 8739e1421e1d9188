"""The JSON of a training plan: whole, without what JSON cannot say, and with choices by name."""

import json

from redline.report.data import json_text
from redline.report.plan.train.training_report import record_of as as_record
from tests.support.made_plans import job, nothing_fits, plan


def test_it_is_json_and_says_what_it_is() -> None:
    record = json.loads(json_text(as_record(plan(), job())))
    assert (record["kind"], record["schema_version"], record["made_by"]) == ("training-plan", 2, "redline plan train")
    assert record["synthetic"] is True  # nothing in it was measured
    assert record == as_record(plan(), job())


def test_figures_are_those_of_the_plan() -> None:
    record, best = as_record(plan()), plan().best
    assert record["best"]["step_s"] == best.step_s
    assert record["best"]["time"]["tensor_s"] == 0.21
    assert record["best"]["layout"]["tp"] == 4
    assert (record["best"]["layout"]["schedule"], record["best"]["layout"]["recompute"]) == ("one_f_one_b", "selective")
    assert record["overlaps"][1]["ratio"] == 0.0021 / 0.0009
    assert [one["hidden"] for one in record["overlaps"]] == [False, False, True]
    assert record["job"] is None


def test_what_has_no_bound_is_null() -> None:
    zero3 = next(one for one in as_record(plan())["alternatives"] if one["dimension"] == "zero")
    assert zero3["grown"] is None


def test_a_job_has_spans_and_every_case() -> None:
    record = as_record(plan(), job())["job"]
    assert record["days"]["low"] < record["days"]["likely"] < record["days"]["high"]
    assert len(record["cases"]) == len(job().cases)
    assert as_record(nothing_fits())["fits"] is False
