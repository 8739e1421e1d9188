"""What differs between two recordings: exactly, and with no more certainty than they have."""

from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.findings.aggregate import findings_of
from redline.findings.finding import Findings
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import outline_of
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.trials.recordings import Judgement, RecordingDifference, difference_of
from redline.trials.run_facts import ALLOCATED, NO_RUN, RESIDENT, RunFacts
from redline.verbs.diagnose import diagnose
from tests.support.events import region
from tests.support.real_traces import REAL_TRACES
from tests.support.recorded_trials import job

DLRM = "dlrm_8rank_v100"
LOADER_WORKERS = (
    "tb_resnet50_num_workers_0_1623143089861.pt.trace.json.gz",
    "tb_resnet50_num_workers_4_1623212756351.pt.trace.json.gz",
)
LOADER_WORKERS_AGAIN = (
    "tb_resnet50_num_workers_0_1623143566756.pt.trace.json.gz",
    "tb_resnet50_num_workers_4_1623213129365.pt.trace.json.gz",
)
SAM = ("sam_amg_False_9566500c.json.gz", "sam_amg_True_9566500c.json.gz")
LARGE_SAM = ("sam_amg_False_4be6279a.json.gz", "sam_amg_True_4be6279a.json.gz")
OTHER_MACHINE = ("hta_tracediff_control.json.gz", "hta_tracediff_test.json.gz")
SECOND_CARD = ("h20_single.json.gz", "h20_ddp_2ranks_merged.json.gz")
LAST_RANK = (
    f"{DLRM}/worker1_step_12.1694128201556.pt.trace.json.gz",
    f"{DLRM}/worker7_step_12.1694128201553.pt.trace.json.gz",
)
WHOLE_JOB = (f"{DLRM}/worker3_step_12.1694128201557.pt.trace.json.gz", DLRM)
PAIRS = (LOADER_WORKERS, LOADER_WORKERS_AGAIN, SAM, OTHER_MACHINE, SECOND_CARD, LAST_RANK, WHOLE_JOB)
BUSY = ("math", "memory", "kernel loss", "unrated compute", "transfer", "peer wait", "copy")


def found(diagnosis: Diagnosis) -> Findings:
    return findings_of(diagnosis, outline_of(diagnosis))


def check_sums(difference: RecordingDifference) -> None:
    """Differences add up to that of the step to the last fraction of a nanosecond."""
    step_ns = difference.step.difference_ns
    assert sum(row.difference_ns for row in difference.accounts) == step_ns
    if difference.phases:
        assert sum(row.difference_ns for row in difference.phases) == step_ns


@given(
    before=st.lists(st.integers(2, 400), min_size=1, max_size=5),
    after=st.lists(st.integers(2, 400), min_size=1, max_size=5),
)
@settings(max_examples=25, deadline=None)
def test_differences_add_up_exactly_whatever_the_numbers_of_steps(before: list[int], after: list[int]) -> None:
    difference = difference_of(job(*before), job(*after))
    check_sums(difference)
    assert difference.step.before_ns == Fraction(1000 * sum(before), len(before))
    assert difference.step.after_ns == Fraction(1000 * sum(after), len(after))


@cache
def recorded(name: str) -> DiagnoseResult:
    return diagnose(REAL_TRACES / name)


def compared(before: str, after: str) -> RecordingDifference:
    first, second = recorded(before), recorded(after)
    return difference_of(first.diagnosis, second.diagnosis, (first.findings, second.findings))


@pytest.mark.parametrize(
    ("before", "after"),
    [*PAIRS, pytest.param(*LARGE_SAM, marks=pytest.mark.slow)],
    ids=lambda name: name.split(".")[0],
)
def test_differences_of_real_recordings_add_up_exactly(before: str, after: str) -> None:
    difference = compared(before, after)
    check_sums(difference)
    assert difference.step.before_ns


def test_more_workers_made_the_step_shorter_by_what_was_waiting_for_data() -> None:
    difference = compared(*LOADER_WORKERS)
    loading = next(row for row in difference.accounts if row.name == "input")
    assert loading.difference_ns < 0
    before_ns, after_ns = difference.medians_ns
    assert before_ns == pytest.approx(176.3e6, rel=0.001)
    assert after_ns == pytest.approx(126.6e6, rel=0.001)
    assert difference.judgement is Judgement.UNDECIDED  # 20 % less on average, as the first step after is a long one
    (bound,) = (row.before for row in difference.findings if row.code == "RL-D01" and row.after is None)
    assert bound is not None
    assert bound >= 1 - after_ns / before_ns  # what was promised at most, and what was gained


def test_more_workers_a_second_time() -> None:
    before_ns, after_ns = compared(*LOADER_WORKERS_AGAIN).medians_ns
    assert before_ns == pytest.approx(152.5e6, rel=0.001)
    assert after_ns == pytest.approx(125.1e6, rel=0.001)


def test_a_compiled_model_shortens_what_computes_and_not_what_waits() -> None:
    difference = compared(*SAM)
    busy = [row for row in difference.accounts if row.name in BUSY]
    assert sum(row.before_ns for row in busy) == pytest.approx(1257.1e6, rel=0.001)
    assert sum(row.after_ns for row in busy) == pytest.approx(383.9e6, rel=0.001)
    assert difference.judgement is Judgement.OTHER_WORK  # its own attention kernel has no FLOPs that are known
    assert not difference.work.covered_alike


def test_a_rank_that_comes_last_is_shorter_by_what_the_others_wait() -> None:
    difference = compared(*LAST_RANK)
    assert sum(row.before_ns for row in difference.collectives) == 11_336_000
    assert sum(row.after_ns for row in difference.collectives) == 1_746_000


def test_a_second_card_adds_its_exchange_of_gradients() -> None:
    difference = compared(*SECOND_CARD)
    (gradients,) = (row for row in difference.collectives if row.name == "all_reduce")
    assert gradients.before_calls == 0
    assert gradients.after_calls == 1
    assert gradients.detail == "44.7 MB, 2 ranks"
    assert not difference.work.differs


def test_a_longer_step_on_another_machine_with_other_work_is_not_called_slower() -> None:
    assert compared(*OTHER_MACHINE).judgement is Judgement.OTHER_WORK


def test_a_small_difference_is_no_proof_of_anything() -> None:
    usual = (100, 102, 98, 101)
    assert difference_of(job(*usual), job(*(1.2 * length for length in usual))).judgement is Judgement.UNDECIDED


def test_a_large_difference_beyond_the_spread_of_the_steps_is() -> None:
    usual = (100, 102, 98, 101)
    longer = tuple(1.5 * length for length in usual)
    assert difference_of(job(*usual), job(*longer)).judgement is Judgement.SLOWER
    assert difference_of(job(*longer), job(*usual)).judgement is Judgement.FASTER


def test_steps_that_spread_more_than_they_changed_say_nothing() -> None:
    difference = difference_of(job(20, 400, 30, 200), job(100, 700, 20, 60, 300))
    assert difference.judgement is Judgement.UNDECIDED
    assert difference.interval is not None
    assert difference.interval.low < 0 < difference.interval.high


def test_two_steps_have_no_interval_and_no_verdict() -> None:
    difference = difference_of(job(100, 100), job(300, 300))
    assert difference.interval is None
    assert difference.judgement is Judgement.UNDECIDED


def test_operators_are_compared_by_their_shapes() -> None:
    difference = difference_of(job(100, 100), job(100, 100, rows=128))
    assert {(row.detail, row.difference_ns) for row in difference.operators} == {
        ("[[64, 64], [64, 64]]", Fraction(-50_000)),
        ("[[128, 64], [64, 64]]", Fraction(50_000)),
    }


def test_work_that_changed_is_told_with_what_else_differs() -> None:
    difference = difference_of(job(100, 100), job(100, 100, rows=128))
    assert "FLOPs per step" in {row.what for row in difference.context}
    assert not difference_of(job(100, 100), job(100, 100)).context


def test_more_work_in_longer_steps_is_not_slower() -> None:
    usual = (100, 102, 98, 101)
    difference = difference_of(job(*usual), job(*(2 * length for length in usual), rows=128))
    assert difference.judgement is Judgement.OTHER_WORK
    assert difference.work.change == pytest.approx(1.0)
    assert difference.work.covered_alike


def test_peaks_of_memory_and_commands_come_from_the_records_of_the_runs() -> None:
    runs = (
        RunFacts(context={"command": "train.py"}, peak_bytes={RESIDENT: 100}),
        RunFacts(context={"command": "train.py --large"}, peak_bytes={RESIDENT: 150, ALLOCATED: 70}),
    )
    difference = difference_of(job(100, 100), job(100, 100), runs=runs)
    assert [(row.name, row.before_bytes, row.after_bytes) for row in difference.memory] == [
        (RESIDENT, 100, 150),
        (ALLOCATED, None, 70),
    ]
    assert [(row.what, row.before, row.after) for row in difference.context] == [
        ("command", "train.py", "train.py --large")
    ]
    assert not difference_of(job(100, 100), job(100, 100), runs=(runs[0], NO_RUN)).context  # unknown is not different


def test_findings_that_are_gone_or_new() -> None:
    loader = region("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 60, 30)
    before, after = job(100, 100, extra=[loader]), job(100, 100)
    difference = difference_of(before, after, (found(before), found(after)))
    assert [(row.code, row.after) for row in difference.findings if row.code == "RL-D01"] == [("RL-D01", None)]
    turned = difference_of(after, before, (found(after), found(before)))
    assert [(row.code, row.before) for row in turned.findings if row.code == "RL-D01"] == [("RL-D01", None)]
