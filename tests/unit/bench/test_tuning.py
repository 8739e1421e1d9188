"""What `redline tune` is scored on: cases and traps that are what they say, and a harness that fails softly."""

import ast
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from time import sleep

import pytest

pytest.importorskip("torch")

import torch

from bench.tuning import kills
from bench.tuning.cases import CASES, SHOW_PIECE, TuningCase, case_of
from bench.tuning.fresh_pairs import FreshChange, change_of
from bench.tuning.processes_of import end_processes_of, marked_environment, processes_of
from bench.tuning.repeats import is_alike
from bench.tuning.run_tune import TuneError, kept_levers, levers_in
from bench.tuning.score import CaseScore, ScoreOptions, score_case
from bench.tuning.traps import job
from bench.tuning.traps.adopted import said_of
from bench.tuning.traps.expected import JOB, TRAPS, TrapOutcome
from redline.capture.supervisor.trial_command import trial_command
from redline.capture.worker import api
from redline.trials.trial_result import TimedPair

WRONG = [trap.name for trap in TRAPS if trap.expected is TrapOutcome.WRONG_NUMBERS and "switch" in trap.lever]


def changed(change: float, low: float, high: float) -> FreshChange:
    return FreshChange(change=change, low=low, high=high, pairs=18, start_ms=10.0, step_ms=10.0 * (1 + change))


@pytest.fixture
def switched(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    api.set_switch(name, on=True)
    yield name
    api.set_switch(name, on=False)


def test_there_are_seven_cases_with_scripts_that_can_be_watched() -> None:
    assert len({case.name for case in CASES}) == 7
    for case in CASES:
        for words in (case.start, case.tuned, case.job):
            assert trial_command(words).python is not None, words
        assert case.script.exists()
        assert case.twin.exists()
    assert case_of(SHOW_PIECE).name == SHOW_PIECE


def test_an_unknown_case_names_those_there_are() -> None:
    with pytest.raises(KeyError, match="there are: gpt2_flaws"):
        case_of("no_such")


def test_the_share_is_that_of_the_gain_of_the_twin() -> None:
    twin, tuned = changed(-0.40, -0.42, -0.38), changed(-0.36, -0.40, -0.33)
    assert CaseScore(name="x", twin=twin, tuned=tuned).line()["share"] == pytest.approx(0.9)
    assert CaseScore(name="x", twin=changed(0.01, -0.02, 0.03), tuned=tuned).share is None
    assert CaseScore(name="x", twin=twin).share is None


def test_pairs_of_several_trials_are_one_sequence() -> None:
    pairs = [TimedPair(before_s=0.1 + 0.001 * number, after_s=0.05 + 0.0005 * number) for number in range(12)]
    known = change_of(pairs)
    assert known.change == pytest.approx(-0.5)
    assert known.low <= -0.5 <= known.high
    assert known.pairs == 12
    assert known.step_ms == pytest.approx(known.start_ms / 2)


@pytest.mark.parametrize(
    ("against_first", "said"),
    [
        (None, "the same levers"),
        (changed(-0.04, -0.06, -0.02), "within 5 %"),
        (changed(-0.10, -0.30, 0.10), "not told apart"),
        (changed(-0.10, -0.12, -0.08), "DIFFERS"),
    ],
)
def test_repeats_are_alike_within_five_percent_or_their_interval(against_first: FreshChange | None, said: str) -> None:
    assert said in is_alike(against_first).replace("5%", "5 %")


def test_levers_are_read_from_what_a_search_wrote(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    assert kept_levers(tmp_path) == ()
    with pytest.raises(TuneError, match="no levers in it"):
        levers_in(path)
    path.write_text('levers = ["fused", "workers=2"]\n')
    assert kept_levers(tmp_path) == levers_in(path) == ("fused", "workers=2")
    path.write_text("levers = [1]\n")
    with pytest.raises(TuneError, match="no list of words"):
        levers_in(path)


def test_a_case_that_fails_is_a_line_with_the_reason(tmp_path: Path) -> None:
    missing = tmp_path / "no_such.py"
    case = TuningCase(name="missing", script=missing, twin=missing, tuned_by_hand="nothing")
    line = score_case(case, tmp_path, ScoreOptions(budget_minutes=1, turns=1, steps=15)).line()
    assert line["twin"] is None
    assert "no_such.py" in str(line["failed"])


def test_switches_of_the_table_and_of_the_script_are_the_same() -> None:
    asked = {
        node.args[0].value
        for node in ast.walk(ast.parse(JOB.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "switch"
        if isinstance(node.args[0], ast.Constant)
    }
    assert asked == {trap.lever.removeprefix("switch=") for trap in TRAPS if trap.lever.startswith("switch=")}
    assert len(TRAPS) >= 12


def loss_and_gradient() -> tuple[float, float]:
    torch.manual_seed(0)
    model = job.TrapModel()
    batch = torch.stack([job.sequence_of(number) for number in range(job.BATCH)])
    loss = job.loss_of(model, batch)
    torch.autograd.backward(loss)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return loss.item(), math.fsum(gradient.double().norm().item() for gradient in gradients)


@pytest.mark.parametrize(
    "switched", [name for name in WRONG if name not in ("accumulates_wrongly", "batch_repeated")], indirect=True
)
def test_a_wrong_change_has_another_gradient(switched: str) -> None:
    loss, gradient = loss_and_gradient()
    api.set_switch(switched, on=False)
    assert (loss, gradient) != loss_and_gradient()
    assert loss_and_gradient() == loss_and_gradient()


@pytest.mark.parametrize("switched", ["batch_repeated"], indirect=True)
def test_batches_are_repeated_only_when_asked_for(switched: str) -> None:
    def sums() -> list[int]:
        source = job.batches(torch.utils.data.DataLoader(job.Sequences(), batch_size=2))
        return [int(next(source).sum()) for _ in range(8)]

    assert len(set(sums())) == 2
    api.set_switch(switched, on=False)
    assert len(set(sums())) == 8


def test_every_worker_reads_the_whole_stream() -> None:
    loader = torch.utils.data.DataLoader(job.StreamedSequences(), batch_size=2, num_workers=2)
    first, second = (batch for _, batch in zip(range(2), loader, strict=False))
    assert torch.equal(first, second)


@pytest.mark.parametrize("switched", ["out_of_memory", "raises"], indirect=True)
def test_failures_say_what_the_table_says(switched: str) -> None:
    says = next(trap.says for trap in TRAPS if trap.name == switched)
    with pytest.raises(RuntimeError, match=says):
        job.misbehave()


def test_a_detached_process_is_found_and_ended() -> None:
    detached = "import subprocess; subprocess.Popen(['sleep', '60'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", detached], env=marked_environment("of this test"), check=True)
    assert list(processes_of("of this test").values()) == ["sleep 60"]
    end_processes_of("of this test")
    for _ in range(100):
        if not processes_of("of this test"):
            break
        sleep(0.05)
    assert processes_of("of this test") == {}


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "GRACE_S", 0.3)


def killed(folder: Path, record: Path, program: str, after_s: float) -> kills.KillOutcome:
    """A made-up search, killed."""
    return kills.kill_once([sys.executable, "-c", dedent(program)], folder, record, after_s)


@pytest.mark.usefixtures("short_grace")
def test_a_kill_that_leaves_nothing_is_clean(tmp_path: Path) -> None:
    folder, trials = kills.user_folder(tmp_path / "user"), tmp_path / "record" / "trials"
    trials.mkdir(parents=True)
    (trials / "1.json").write_text("{}")
    outcome = killed(folder, tmp_path / "record", "import time; time.sleep(60)", 0.5)
    assert outcome.is_clean
    assert not outcome.had_ended
    assert outcome.trials == 1


@pytest.mark.usefixtures("short_grace")
def test_what_a_kill_leaves_is_named(tmp_path: Path) -> None:
    folder, trials = kills.user_folder(tmp_path / "user"), tmp_path / "record" / "trials"
    trials.mkdir(parents=True)
    (trials / "1.json").write_text("{}")
    program = f"""
        import pathlib, subprocess, time
        pathlib.Path({str(trials / "1.json")!r}).write_text("again")
        pathlib.Path({str(trials / "2.json")!r}).write_text("new")
        pathlib.Path("notes.txt").write_text("yours")
        subprocess.Popen(["sleep", "61"], start_new_session=True)
        time.sleep(60)
    """
    outcome = killed(folder, tmp_path / "record", program, 2.0)
    assert outcome.left == ("sleep 61",)
    assert not outcome.is_folder_unchanged
    assert outcome.measured_again == ("1.json",)
    assert outcome.trials == 2


def test_lines_that_name_a_trap_do_not_name_another() -> None:
    trap = next(trap for trap in TRAPS if trap.name == "slower")
    output = "rejected  switch=slower_still  wrong numbers\nrejected  switch=slower  slower\nswitch=crashes"
    assert said_of(trap, output) == ["rejected  switch=slower  slower"]
