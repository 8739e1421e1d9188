"""The reading ledger: one line per reason, with a count and the first place."""

import re

import pytest

from redline.timeline.problems import Effect, Problem, ProblemLog, Reason


def test_a_reason_is_one_line_with_the_first_example_and_place() -> None:
    log = ProblemLog()
    log.add(Reason.CUT_EVENT, offset=7, example="first")
    log.add(Reason.CUT_EVENT, 3, offset=2, example="second")
    assert log.freeze() == (Problem(Reason.CUT_EVENT, 4, 7, "first"),)


def test_lines_come_in_the_order_of_the_reasons() -> None:
    log = ProblemLog()
    log.add(Reason.RANK_INFERRED)
    log.add(Reason.TRUNCATED_FILE)
    assert [problem.reason for problem in log.freeze()] == [Reason.TRUNCATED_FILE, Reason.RANK_INFERRED]


@pytest.mark.parametrize("count", [0, -1])
def test_what_did_not_happen_is_not_written_down(count: int) -> None:
    log = ProblemLog()
    log.add(Reason.BAD_FIELD, count)
    assert log.freeze() == ()
    assert Reason.BAD_FIELD not in log


def test_examples_are_kept_short() -> None:
    log = ProblemLog()
    log.add(Reason.BAD_FIELD, example="x" * 5000)
    assert len(log.freeze()[0].example) == 200


def test_a_log_can_be_continued_in_another() -> None:
    first, second = ProblemLog(), ProblemLog()
    first.add(Reason.BAD_FIELD, 2, offset=5, example="a")
    second.add(Reason.BAD_FIELD, 1, offset=9, example="b")
    second.extend(first.freeze())
    assert second.freeze() == (Problem(Reason.BAD_FIELD, 3, 9, "b"),)
    assert Reason.BAD_FIELD in second


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_code_an_effect_and_a_sentence_of_its_own(reason: Reason) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", reason.code)
    assert reason.effect in Effect
    assert not reason.sentence.endswith(".")
    assert [other for other in Reason if other.sentence == reason.sentence] == [reason]
