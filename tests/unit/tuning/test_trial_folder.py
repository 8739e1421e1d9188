"""The folder of a search: what was measured is read back as it was, and rubbish is refused."""

import json
from pathlib import Path

import pytest

from redline.cli import main
from redline.errors import InputError
from redline.numerics import Numerics
from redline.report.trial.trial_report import TrialReport
from redline.trials.numbers.check import NumbersResult
from redline.trials.numbers.differences import TensorDifference
from redline.trials.numbers.judgement import CurveDifference, NumbersJudgement, TensorDeviation
from redline.trials.numbers.run_numbers import TensorKey
from redline.trials.paired_sequence import decide
from redline.trials.trial_jobs import MemoryTrial
from redline.trials.trial_record import read_trial
from redline.trials.trial_result import LeverOutcome, Stopped, Timed, TimedPair, TrialResult
from redline.tuning.trial_folder import Answer, Asked, Question, TrialFolder

PAIRS = tuple(TimedPair(before_s=1.0, after_s=0.8 + 0.001 * number) for number in range(8))
TRIAL = TrialResult(
    before="python train.py",
    after="python train.py with fused",
    timed=Timed.STEP_IN_BLOCKS,
    stopped=Stopped.DECIDED,
    decision=decide([pair.before_s for pair in PAIRS], [pair.after_s for pair in PAIRS]),
    pairs=PAIRS,
    cpu=decide([1.0, 1.0], [0.9, 0.8]),
    levers=(LeverOutcome(lever="fused", took=True, what="AdamW: fused"),),
    after_peak_bytes=123,
)
QUESTION = Question(asked=Asked.TIME, kept=("gc-freeze",), levers=("fused",))


def numbers() -> NumbersResult:
    curves = CurveDifference(loss=float("nan"), gradient_norm=0.5)
    first = TensorDeviation(
        key=TensorKey(step=0, kind="gradient", name="blocks.0.weight"),
        score=float("inf"),
        difference=TensorDifference(error=1.0, norm=1.0, gain=2.0, cosine=1.0),
        deviating=2,
        compared=7,
    )
    judged = NumbersJudgement(
        holds=False, same_bits=False, score=float("inf"), worst=first.key, first=first, deviating=2, compared=20,
        kinds=(), skipped=(), only_reference=(), only_candidate=(), names_match=True, curves=curves,
    )  # fmt: skip
    return NumbersResult(
        claimed=Numerics.BITWISE,
        verdict=Numerics.SEMANTICS,
        structure=judged,
        precision=None,
        curves=curves,
        steps=4,
        by_optimizer=True,
        notes=("a note",),
    )


def test_what_was_answered_is_known_when_the_search_goes_on(tmp_path: Path) -> None:
    memory = MemoryTrial(before_bytes=(3, 4), after_bytes=(1, 2), before_step_s=(0.1,), after_step_s=(0.2,))
    answer = Answer(trial=TRIAL, memory=memory, error="none", peak_bytes=5, step_s=0.5)
    TrialFolder(tmp_path / "of", {"command": "a"}).keep(QUESTION, answer)
    again = TrialFolder(tmp_path / "of", {"command": "a"})
    assert again.known(QUESTION) == answer
    assert again.known(Question(asked=Asked.TIME, levers=("fused",))) is None


def test_numbers_are_told_in_the_same_words_again(tmp_path: Path) -> None:
    TrialFolder(tmp_path / "of", {}).keep(QUESTION, Answer(numbers=numbers()))
    known = TrialFolder(tmp_path / "of", {}).known(QUESTION)
    assert known is not None
    assert known.numbers is not None
    shown, expected = (TrialReport(trial=None, numbers=each).text() for each in (known.numbers, numbers()))
    assert shown == expected
    assert not known.numbers.holds


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((("wall_s",), 1e400), (("block_steps",), 1e300), (("pairs", 0, 0), 0.0), (("pairs", 0), [1.0])),
        *((("peak_bytes",), []), (("seed",), None), (("cpu_time", "low"), "x"), (("levers", 0), {})),
    ],
)
def test_a_trial_that_cannot_be_is_refused_in_a_line(
    place: tuple[str | int, ...], value: object, tmp_path: Path
) -> None:
    TrialFolder(tmp_path / "of", {}).keep(QUESTION, Answer(trial=TRIAL))
    (file,) = (tmp_path / "of" / "trials").iterdir()
    content = json.loads(file.read_text())
    holder = content["time"]
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = value
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"^.* is damaged, or not a trial .*; measure it again$"):
        read_trial(file)


def test_a_trial_with_nothing_to_show_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TrialFolder(tmp_path / "of", {}).keep(QUESTION, Answer(peak_bytes=5))
    assert main(["compare", str(tmp_path / "of"), "-o", str(tmp_path / "out.html")]) == 2
    assert "has neither times nor numbers to be shown; give another trial" in capsys.readouterr().err


def test_every_trial_is_a_file_that_compare_reads(tmp_path: Path) -> None:
    TrialFolder(tmp_path / "of", {}).keep(QUESTION, Answer(trial=TRIAL))
    (file,) = (tmp_path / "of" / "trials").iterdir()
    assert file.name == "001-time-fused.json"
    assert read_trial(file) == (TRIAL, None)


def test_a_trial_that_was_removed_leaves_the_names_of_others_alone(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path / "of", {})
    for kept in ((), ("a",)):
        folder.keep(Question(asked=Asked.TIME, kept=kept, levers=("fused",)), Answer(trial=TRIAL))
    (tmp_path / "of" / "trials" / "001-time-fused.json").unlink()
    TrialFolder(tmp_path / "of", {}).keep(Question(asked=Asked.TIME, levers=("fused",)), Answer(trial=TRIAL))
    names = sorted(path.name for path in (tmp_path / "of" / "trials").iterdir())
    assert names == ["002-time-fused.json", "003-time-fused.json"]


def test_a_folder_of_another_command_is_refused(tmp_path: Path) -> None:
    TrialFolder(tmp_path / "of", {"command": "a", "machine": "x"})
    with pytest.raises(InputError, match="is a search with another command; give another folder"):
        TrialFolder(tmp_path / "of", {"command": "b", "machine": "x"})


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="has files that are not of a search; give another folder"):
        TrialFolder(tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("damage", ["", "[]", "{"])
def test_a_damaged_trial_says_what_to_do(tmp_path: Path, damage: str) -> None:
    TrialFolder(tmp_path / "of", {}).keep(QUESTION, Answer(trial=TRIAL))
    (file,) = (tmp_path / "of" / "trials").iterdir()
    file.write_text(damage)
    with pytest.raises(InputError, match=r"is damaged, or not .*; remove it, and what it held is measured again"):
        TrialFolder(tmp_path / "of", {})


def test_what_is_no_trial_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for content in ("[1]", "{}", "x", json.dumps({"kind": "plan", "schema_version": 1})):
        path.write_text(content)
        with pytest.raises(InputError):
            read_trial(path)
