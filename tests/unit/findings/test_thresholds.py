"""Thresholds mean what they say, and what is not known neither crosses nor keeps one."""

from dataclasses import replace
from pathlib import Path

import pytest

import redline
from redline.errors import UsageError
from redline.findings.registry import RULES
from redline.findings.thresholds import QUANTITIES, MeasuredJob, Outcome, check, parse
from redline.ledger.job.first_screen import Remark, Unseen, Utilisation
from redline.report.diagnose.thresholds_text import crossed_line, unknown_line
from tests.support.made_findings import findings
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

USE = Utilisation(
    mfu=0.35,
    hfu=0.4,
    flops=1,
    recomputed_flops=0,
    step_ns=1.0,
    peaks={},
    peak_origins=("catalogue",),
    peak_spread=0.0,
    model_flops={},
    unrated_flops=0,
    known_share=1.0,
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> MeasuredJob:
    """Two ranks, the second late; the findings are made up: RL-H01 for 40 % of the step, and a remark of its code."""
    folder = tmp_path_factory.mktemp("jobs") / "job"
    write_job(JobSpec(ranks=2, steps=3, layers=1, stragglers=(Straggler(rank=1, extra_us=2000),)), folder)
    found = redline.diagnose([folder])
    made_up = replace(findings(), remarks=())
    return MeasuredJob(
        diagnosis=found.diagnosis,
        outline=replace(found.outline, utilisation=USE, unseen=()),
        findings=made_up,
        unread=2,
    )


def outcome(text: str, measured: MeasuredJob) -> Outcome:
    (found,) = check([parse(text)], measured)
    return found


def share_of(measured: MeasuredJob, account: str) -> float:
    return next(bar.share for bar in measured.outline.waterfall if bar.account == account)


@pytest.mark.parametrize(
    ("text", "crossed"),
    [
        ("idle>39%", True),
        ("idle>40%", False),
        ("idle>=40%", True),
        ("idle<40.5%", True),
        ("idle<=39.9 %", False),
        ("MFU<40%", True),
        ("mfu<35%", False),
        ("hfu>0%", True),
        ("step>1us", True),
        ("step > 10 s", False),
        ("step<100000000ns", True),
        ("step>0.5ms", True),
        ("bound>10%", True),
        ("bound>40%", False),
        ("RL-H01", True),
        ("rl-h01>5%", True),
        ("RL-H01>50%", False),
        ("RL-D01", False),
        ("RL-D01>0%", False),
        ("spread>0%", True),
        ("dropped>0", False),
        ("dropped>=0", True),
        ("unread>1", True),
        ("missing>0", False),
        ("peer wait>1%", True),
        ("peer_wait>99%", False),
        ("peer-wait>1%", True),
        ("kernel loss<100%", True),
        ("exposed>1%", True),
    ],
)
def test_thresholds(text: str, crossed: bool, measured: MeasuredJob) -> None:
    assert outcome(text, measured).crossed is crossed


def test_values_are_those_of_the_report(measured: MeasuredJob) -> None:
    steps = measured.outline.steps
    assert outcome("step>1ns", measured).reading.value == steps.median_ns
    assert outcome("spread>1%", measured).reading.value == pytest.approx(
        (steps.longest_ns - steps.shortest_ns) / steps.median_ns
    )
    for account in ("peer wait", "transfer", "host", "math"):
        assert outcome(f"{account}>1%", measured).reading.value == share_of(measured, account)
    both = share_of(measured, "transfer") + share_of(measured, "peer wait")
    assert outcome("exposed>1%", measured).reading.value == pytest.approx(both)


def unseen(measured: MeasuredJob, *what: Unseen, detail: str = "") -> MeasuredJob:
    remarks = tuple(Remark(what=one, detail=detail) for one in what)
    return replace(measured, outline=replace(measured.outline, unseen=remarks, utilisation=None))


def unrated(measured: MeasuredJob) -> MeasuredJob:
    verdict = replace(measured.findings.verdict, math_share=None)
    return replace(measured, findings=replace(measured.findings, verdict=verdict))


def test_what_is_not_known_is_neither_crossed_nor_kept(measured: MeasuredJob) -> None:
    cases = [
        (
            "mfu<40%",
            unseen(measured, Unseen.NO_PEAK),
            "the peak of the machine is not known; give it with `machine=...`",
        ),
        ("hfu<40%", unseen(measured, Unseen.NO_DTYPE_PEAK), "the peak of the machine is not known"),
        ("mfu>0%", unseen(measured, Unseen.UNKNOWN_WORK, detail="no shapes"), "no shapes were recorded"),
        ("mfu>0%", unseen(measured), "no matmul, convolution or attention whose shapes are known"),
        ("peer wait>99%", unseen(measured, Unseen.ONE_RANK), "one rank only"),
        ("host>99%", unseen(measured, Unseen.NO_HOST), "no launches in the trace"),
        ("kernel loss>99%", unrated(measured), "the work or the peak of most kernels is not known"),
        ("math<99%", unrated(measured), "the work or the peak of most kernels is not known"),
    ]
    for text, known, why in cases:
        found = outcome(text, known)
        assert found.crossed is None, text
        assert unknown_line(found).startswith(f"threshold {text} cannot be checked: {why}")


def test_the_least_that_something_can_be_may_be_enough(measured: MeasuredJob) -> None:
    found = outcome("peer wait>1%", unseen(measured, Unseen.ONE_RANK))
    assert found.crossed is True
    assert "peer wait is at least " in crossed_line(found)


def test_steps_that_are_not_there(measured: MeasuredJob) -> None:
    none = replace(measured.outline.steps, longest_ns=0, shortest_ns=0, median_ns=0.0)
    empty = replace(measured, outline=replace(measured.outline, steps=none))
    for text in ("step>1ms", "spread>1%"):
        assert "nothing in the trace takes any time" in unknown_line(outcome(text, empty))
    first = measured.diagnosis.ranks[0]
    ledger = replace(
        first.ledger,
        start_ns=first.ledger.start_ns[:1],
        end_ns=first.ledger.end_ns[:1],
        steps=first.ledger.steps[:1],
    )
    alone = replace(measured, diagnosis=replace(measured.diagnosis, ranks=(replace(first, ledger=ledger),)))
    assert "only one step was seen" in unknown_line(outcome("spread>1%", alone))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("idle>20%", "threshold idle>20% is crossed: idle is 40.0 %"),
        ("mfu<40%", "threshold mfu<40% is crossed: mfu is 35.0 %"),
        ("RL-H01", "threshold RL-H01 is crossed: RL-H01 is found, worth at most 40.0 % of the step"),
        ("RL-H01>5%", "threshold RL-H01>5% is crossed: RL-H01 is 40.0 %"),
        ("unread>0", "threshold unread>0 is crossed: unread is 2"),
    ],
)
def test_what_is_said_of_a_crossed_threshold(text: str, line: str, measured: MeasuredJob) -> None:
    assert crossed_line(outcome(text, measured)) == line


def test_a_remark_is_found_or_not(measured: MeasuredJob) -> None:
    silent = replace(measured, findings=replace(findings(), findings=()))
    assert crossed_line(outcome("RL-H01", silent)) == "threshold RL-H01 is crossed: RL-H01 is found"


def test_times_are_said_with_their_unit(measured: MeasuredJob) -> None:
    assert crossed_line(outcome("step>1us", measured)).endswith(" ms")


def test_a_lower_bound_is_called_so(measured: MeasuredJob) -> None:
    partly = replace(USE, known_share=0.5)
    known = replace(measured, outline=replace(measured.outline, utilisation=partly))
    assert crossed_line(outcome("mfu>30%", known)).endswith("mfu is at least 35.0 %")


def test_a_lower_bound_cannot_show_that_something_is_too_small(measured: MeasuredJob) -> None:
    known = replace(measured, outline=replace(measured.outline, utilisation=replace(USE, known_share=0.5)))
    assert unknown_line(outcome("mfu<40%", known)).endswith("mfu is only known to be at least 35.0 %")
    assert outcome("mfu<30%", known).crossed is False
    assert outcome("mfu>40%", known).crossed is None


def test_time_that_nobody_can_judge_is_neither_idle_nor_busy(measured: MeasuredJob) -> None:
    verdict = replace(measured.findings.verdict, idle_share=0.979, unjudged_share=0.9)
    known = replace(measured, findings=replace(measured.findings, verdict=verdict))
    assert "before the first recorded work" in unknown_line(outcome("idle>20%", known))
    assert outcome("idle>5%", known).crossed is True
    assert outcome("idle>98%", known).crossed is False


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "write a quantity and its limit, such as idle>20%"),
        (">3", "write a quantity and its limit, such as idle>20%"),
        ("idle=20%", "write a quantity and its limit, such as idle>20%"),
        ("idle>20%>3", "write a quantity and its limit, such as idle>20%"),
        ("idel>20%", "there is no 'idel'; there are: idle, exposed, math, memory, kernel loss, unrated compute, "),
        ("RL-X99", "there is no finding 'RL-X99'; `redline explain` lists all"),
        ("idle", "idle needs a limit; it is a share: write a percentage, such as 20%"),
        ("idle>0.2", "idle is a share: write a percentage, such as 20%"),
        ("idle>20ms", "idle is a share: write a percentage, such as 20%"),
        ("step>150", "step is a time: write it with its unit, such as 150ms"),
        ("dropped>1%", "dropped is a number: write it without a unit, such as 0"),
        ("RL-H01>3", "RL-H01 is a share: write a percentage, such as 20%"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, advice: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value).startswith(f"{text!r}: {advice}")


def test_a_finding_without_time_has_no_limit() -> None:
    silent = [rule.code for rule in RULES if not rule.claims_time]
    for code in silent:
        assert parse(code).sign == ""
        with pytest.raises(UsageError, match=f"{code} claims no time; write it without a limit"):
            parse(f"{code}>5%")


def test_every_finding_can_have_a_limit() -> None:
    assert {rule.code for rule in RULES} <= set(QUANTITIES)


def test_the_page_has_every_quantity() -> None:
    from tests.support.docs import DOCS, rows_of, section

    rows = rows_of(section(Path(DOCS / "reference" / "diagnose.md"), "--fail-on"))
    assert [row[0] for row in rows] == [f"`{name}`" for name in QUANTITIES if not name.startswith("RL-")]
