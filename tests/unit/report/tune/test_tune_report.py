"""A search on a terminal: the verdict stands first and claims what was proven, and every lever is accounted for."""

from dataclasses import replace
from pathlib import Path

import pytest

from redline.numerics import Numerics
from redline.report.display import Display, displaying
from redline.report.language import speaking
from redline.report.terminal import width_of
from redline.report.tune.progress_sentences import told_line
from redline.report.tune.tune_report import TuneReport
from redline.trials.trial_result import Timed
from redline.tuning.tune_result import Ladder, Rejected, Rejection, Rung, TuneResult
from tests.support.command_line import ROOT
from tests.support.made_tunings import (
    COMMAND,
    FASTER,
    LESS_MEMORY,
    NOTHING,
    ONE,
    REJECTED,
    RUNGS,
    candidate,
    failed,
    memory,
    numbers,
    rung,
    trial,
)

GOLDEN = ROOT / "tests" / "golden" / "tune"


def render(result: TuneResult) -> str:
    return TuneReport(result=result).rendered("text")


def _with(result: TuneResult, **ladder: object) -> TuneResult:
    return replace(result, ladder=replace(result.ladder, **ladder))  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("name", "result"), [("faster", FASTER), ("nothing", NOTHING), ("one", ONE), ("memory", LESS_MEMORY)]
)
def test_golden(name: str, result: TuneResult, language: str, update_golden: bool) -> None:
    with speaking(language):
        text = render(result)
    path = GOLDEN / f"{name}{'.zh' if language == 'zh' else ''}.txt"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_it_fits_a_terminal(language: str, columns: int) -> None:
    with speaking(language), displaying(Display(columns=columns, is_terminal=True)):
        text = render(replace(FASTER, written=()))
    commands = [line for line in text.split("\n") if "redline run" in line]  # are not broken: people copy them
    assert max(width_of(line) for line in text.split("\n") if line not in commands) <= columns


@pytest.mark.parametrize("why", list(Rejection))
def test_every_reason_names_its_lever(why: Rejection) -> None:
    text = render(_with(FASTER, rejected=tuple(lever for lever in REJECTED if lever.why is why)))
    for lever in (lever for lever in REJECTED if lever.why is why):
        assert lever.candidate.name in text


@pytest.mark.parametrize("why", list(Rejection))
def test_a_rejection_without_evidence_is_still_said(why: Rejection) -> None:
    text = render(_with(NOTHING, rejected=(Rejected(candidate=candidate("fused"), why=why),)))
    assert "fused" in text


@pytest.mark.parametrize("why", [Rejection.NO_CONSENT, Rejection.NO_TIME])
def test_what_was_not_tried_is_no_row(why: Rejection) -> None:
    text = render(_with(FASTER, rejected=tuple(lever for lever in REJECTED if lever.why is why)))
    assert "not kept" not in text
    assert "not tried" in text


def test_consent_is_asked_for_as_it_is_typed() -> None:
    lines = render(FASTER).replace("\n           ", " ")
    assert "matmul-precision=medium, autocast=fp16; `--allow lower-precision` tries them" in lines
    assert "switch=short-sequences; `--allow NAME`" in lines


def test_the_evidence_of_wrong_numbers_is_the_first_tensor_and_what_it_would_have_gained() -> None:
    text = render(FASTER)
    assert "first wrong in step 1: the gradient of `blocks.3.attention.weight`; time -24.0 %" in text


def test_an_error_is_shown_without_the_command() -> None:
    text = render(_with(NOTHING, rejected=REJECTED))
    assert "workers=8        it ended with 1: RuntimeError: DataLoader worker" in text


def test_of_a_long_error_the_end_is_shown() -> None:
    error = "Traceback (most recent call last):\n" + "  File x\n" * 50 + "torch.OutOfMemoryError: " + "x" * 500 + " end"
    text = render(_with(NOTHING, rejected=(Rejected(candidate=candidate("fused"), why=Rejection.FAILED, text=error),)))
    assert "Traceback" not in text
    assert " end\n" in text
    assert max(map(len, text.split("\n"))) < 400


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "a\rb", "\u202eleft", "\x00", "tab\there"])
def test_nothing_in_an_error_moves_the_cursor(hostile: str) -> None:
    rejected = (
        Rejected(candidate=candidate("fused"), why=Rejection.FAILED, trial=failed(hostile)),
        Rejected(candidate=candidate("foreach"), why=Rejection.CONFLICT, text=hostile),
    )
    text = render(replace(_with(NOTHING, rejected=rejected), command=f"python {hostile}", limiting_before=hostile))
    assert all(letter == "\n" or letter.isprintable() for letter in text)


def test_long_names_stay_whole() -> None:
    name = "env:A_VARIABLE_WITH_A_VERY_LONG_NAME_INDEED=" + "value" * 12
    text = render(_with(FASTER, rungs=(rung(name, -0.6),)))
    assert name in text


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_nothing_found_says_so_and_what_limits_the_job() -> None:
    text = render(NOTHING)
    assert text.startswith("verdict    No lever was proven better with correct numbers.")
    assert "not tried  " in text
    assert "limit      Compute-bound: kernels run 97 %" in text
    assert "no gain (2)" in text
    assert "redline run" not in text


def test_nothing_tried() -> None:
    text = render(_with(NOTHING, rejected=()))
    assert "0 levers were tried" in text
    assert "The time was spent" not in text


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        (trial(0.0, noise=0.002), "No measurable change"),
        (trial(0.2), "Slower: 19.9 % more time"),
        (failed("it hangs"), "The job failed with it: it hangs"),
        (None, "It was not measured"),
    ],
)
def test_a_whole_that_is_not_faster_is_not_sold(whole: object, said: str) -> None:
    text = render(_with(FASTER, whole=whole)).replace("\n           ", " ")
    assert text.startswith("verdict    Not proven: 3 levers were kept")
    assert said in text
    assert ("redline run" in text) is (whole is None)


def test_a_memory_ladder_that_is_not_less_is_not_sold() -> None:
    text = render(_with(LESS_MEMORY, whole_memory=memory(1_000_000_000, 1_000_000_000)))
    assert "Not proven: 2 levers were kept" in text
    assert "The peak memory changes by +0.0 %" in text.replace("\n           ", " ")
    assert "It was not measured" in render(_with(LESS_MEMORY, whole_memory=None))


def test_rungs_that_do_not_add_up_are_a_doubt() -> None:
    text = render(_with(FASTER, whole=trial(-0.4))).replace("\n           ", " ")
    assert "doubt      The rungs do not add up: one by one they promise -60.0 %, all together" in text
    assert "doubt" not in render(FASTER)


def test_a_machine_that_changed_is_a_doubt() -> None:
    assert "at its end. Gains are of" in render(replace(FASTER, start_step_s=0.05)).replace("\n           ", " ")


def test_numbers_that_the_user_agreed_to() -> None:
    agreed = Rung(candidate=candidate("switch=x"), trial=trial(-0.6), numbers=None, peak_bytes=0)
    text = render(_with(FASTER, rungs=(agreed,)))
    assert "With switch=x the numbers are others, as you allowed." in text
    assert "others, as allowed" in text
    assert "right" not in text.split("not kept")[0]


def test_a_later_rung_does_not_hide_numbers_that_the_user_agreed_to() -> None:
    agreed = Rung(candidate=candidate("switch=x"), trial=trial(-0.3), numbers=None, peak_bytes=0)
    text = render(_with(FASTER, rungs=(agreed, RUNGS[2]))).replace("\n           ", " ")
    assert "With switch=x the numbers are others, as you allowed. The numbers are right" in text


def test_a_larger_batch_is_not_called_a_longer_step() -> None:
    larger = replace(rung("batch-times=4", -0.6), numbers=None)
    text = render(_with(FASTER, rungs=(larger,)))
    assert "Batch of the start: 31.11 ms instead of 78.22 ms" in text.replace("\n           ", " ")
    assert "Step: " not in text


def test_whole_commands_are_called_so() -> None:
    text = render(_with(FASTER, whole=replace(trial(-0.6), timed=Timed.WHOLE_PROCESS)))
    assert "Whole command: " in text


def test_a_peak_that_is_too_much_is_shown_with_its_unit() -> None:
    """As the search hands it on."""
    large = Rejected(candidate=candidate("fused"), why=Rejection.MORE_MEMORY, text="2310000000")
    assert "fused  peak memory 2.31 GB" in render(_with(NOTHING, rejected=(large,)))


def test_a_lever_that_lost_against_another_shows_what_it_gains_alone() -> None:
    beaten = Rejected(candidate=candidate("foreach"), why=Rejection.CONFLICT, trial=trial(-0.05), text="fused")
    text = render(_with(NOTHING, rejected=(beaten,)))
    assert "cannot be on together with fused; time -5.0 %" in text
    assert "1 lever was tried" in text


def test_a_lever_that_took_the_place_of_another_counts_once() -> None:
    better = replace(rung("compile=root", -0.1), replaced="compile=blocks")
    text = render(_with(FASTER, rungs=(*RUNGS, better)))
    assert "4 compile=root (instead of compile=blocks)" in text


def test_a_limit_of_memory_is_said() -> None:
    text = render(replace(FASTER, memory_limit_bytes=2_000_000_000))
    assert "Peak memory: 1.30 GB instead of 1.24 GB (+4.8 %; limit 2.00 GB)." in text.replace("\n           ", " ")


def test_peaks_that_are_not_known_are_left_out() -> None:
    text = render(replace(_with(FASTER, rungs=(rung("fused", -0.6),)), start_peak_bytes=0))
    assert "Peak memory" not in text


# --- what to do next --------------------------------------------------------------------------------------------------


def test_what_to_type_next() -> None:
    text = render(FASTER)
    assert f"    redline run --with redline-tune/tuned.toml -- {COMMAND}\n" in text
    assert "    git apply redline-tune/tuned.diff\n" in text


def test_what_the_patch_makes_and_what_is_left_to_paste() -> None:
    text = render(FASTER)
    assert "  to put fused, compile=blocks into your own files\n    git apply" in text
    assert "  workers=2 has to be written by hand (train.py:31 calls DataLoader with **options); its page has" in text
    assert "\n    redline explain workers\n" in text


def test_a_line_before_the_command_is_shown_itself() -> None:
    text = render(LESS_MEMORY)
    assert "  malloc-keep goes before the command (it is set before Python starts)\n    MALLOC_TRIM_THRESH" in text
    assert "git apply" not in text


def test_folders_with_blanks_are_quoted() -> None:
    text = render(replace(FASTER, folder=Path("my runs/tune"), written=()))
    assert "redline run --with 'my runs/tune/tuned.toml' --" in text
    assert "git apply" not in text


def test_numbers_that_do_not_hold_are_never_called_right() -> None:
    """A rung should not have such; if one does, the text must not hide it."""
    wrong = replace(RUNGS[0], numbers=numbers(Numerics.SEMANTICS, first="head.weight"))
    text = render(replace(FASTER, ladder=Ladder(rungs=(wrong,), rejected=(), whole=trial(-0.3))))
    assert "The numbers are wrong" in text.replace("\n           ", " ")


def test_levers_that_are_proven_together_alone_are_one_rung() -> None:
    both = replace(rung("fused", -0.15, finding="RL-H08"), others=(candidate("workers=2", "RL-D01"),))
    result = _with(FASTER, rungs=(both,))
    text = render(result)
    assert "1 fused + workers=2" in text
    assert told_line(both).startswith("kept fused + workers=2: time -15")
