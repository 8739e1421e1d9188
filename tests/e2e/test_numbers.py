"""A program against its reference: real processes, one rank and several, right changes and wrong ones."""

import importlib.util
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from redline.capture.supervisor.trial_command import TrialCommand, trial_command
from redline.errors import InputError
from redline.numerics import Numerics
from redline.trials.numbers.check import NumbersResult, check_kept, check_numbers, record_numbers
from redline.trials.numbers.recorded_runs import NumbersReference
from tests.support.running import PROGRAMS

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
QUIET = ("OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo", "TORCH_CPP_LOG_LEVEL=ERROR")
CLAIMS = {
    "doubled": Numerics.REASSOCIATION,
    "bf16": Numerics.LOWER_PRECISION,
    "ddp": Numerics.REASSOCIATION,
    "masks": Numerics.REASSOCIATION,
    "stepless": Numerics.REASSOCIATION,
    "broken": Numerics.REASSOCIATION,
}
Results = Mapping[str, Future[NumbersResult]]


def program(folder: Path, change: str) -> TrialCommand:
    ranks = change in ("ddp", "fsdp")
    flags = [] if change == "same" else ["--ranks", change] if ranks else [f"--{change}"]
    script = folder / "broken.py" if change == "broken" else PROGRAMS / "checked.py"
    words = (*(TORCHRUN if ranks else ()), str(script), *flags)
    return trial_command([*QUIET, *words], folder=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the user is: a file there is overwritten by every step of the program."""
    made = tmp_path_factory.mktemp("numbers")
    (made / "home" / "checkpoints").mkdir(parents=True)
    (made / "home" / "steps.txt").write_text("mine")
    (made / "home" / "broken.py").write_text("raise ValueError('the file of the data is gone')")
    return made


@pytest.fixture(scope="module")
def reference(folder: Path) -> NumbersReference:
    """It runs once, and three times for each floor."""
    reference = NumbersReference(program(folder / "home", "same"), folder / "runs", parallel=3, allow_writes=True)
    reference.floors(Numerics.REASSOCIATION)
    return reference


@pytest.fixture(scope="module")
def results(reference: NumbersReference, folder: Path) -> Results:
    """All candidates, several at a time."""
    home = folder / "home"
    with ThreadPoolExecutor(3) as pool:
        return {
            change: pool.submit(check_numbers, reference, program(home, change), claimed=claimed)
            for change, claimed in CLAIMS.items()
        }


def test_a_doubled_gradient_is_named(results: Results) -> None:
    result = results["doubled"].result()
    assert (result.verdict, result.holds) == (Numerics.SEMANTICS, False)
    first = result.first
    assert first is not None
    assert first.key == (0, "gradient", "2.norm.weight")
    assert (first.deviating, first.compared, first.same_direction) == (1, 16, True)
    assert first.difference.gain == pytest.approx(2.0, abs=1e-6)
    assert result.curves.loss < 1e-3  # the loss curve shows nothing


def test_bf16_is_of_lower_precision_and_right_in_fp32(results: Results) -> None:
    result = results["bf16"].result()
    assert (result.verdict, result.holds) == (Numerics.LOWER_PRECISION, True)
    assert result.structure is not None
    assert result.structure.same_bits  # two processes that do the same, one of them with autocast switched off
    assert result.precision is not None
    assert 0 < result.precision.score < 4


def test_a_recomputation_with_another_dropout_mask_is_named(results: Results) -> None:
    first = results["masks"].result().first
    assert first is not None
    assert first.key == (0, "dropout", "2.dropout")


def test_two_ranks_compute_what_one_process_does(results: Results) -> None:
    check_ranks(results["ddp"].result())


@pytest.mark.slow
def test_two_ranks_that_share_the_parameters_compute_what_one_process_does(
    reference: NumbersReference, folder: Path
) -> None:
    candidate = program(folder / "home", "fsdp")
    check_ranks(check_numbers(reference, candidate, claimed=Numerics.REASSOCIATION))


def check_ranks(result: NumbersResult) -> None:
    assert (result.verdict, result.holds) == (Numerics.REASSOCIATION, True)
    assert result.structure is not None
    compared = {kind.kind: kind.compared for kind in result.structure.kinds}
    assert compared == {"start": 18, "dropout": 8, "loss": 4, "gradient": 64, "movement": 64}
    assert {skipped.why for skipped in result.structure.skipped} == {"each rank has its own part of the batch"}


def test_a_program_that_takes_no_step_is_told(results: Results) -> None:
    with pytest.raises(InputError, match=r"^the candidate took no step: no optimizer stepped, and no module was call"):
        results["stepless"].result()


def test_a_program_that_fails_is_told_with_its_error(results: Results) -> None:
    with pytest.raises(InputError, match=r"exit code 1.*: ValueError: the file of the data is gone$"):
        results["broken"].result()


def test_files_of_the_user_are_not_touched_and_what_lies_in_folders_is_told(results: Results, folder: Path) -> None:
    home = folder / "home"
    assert sorted(path.name for path in home.iterdir()) == ["broken.py", "checkpoints", "steps.txt"]
    assert (home / "steps.txt").read_text() == "mine"
    written = home.resolve() / "checkpoints" / "model.pt"
    assert f"the script wrote to {written}, outside of the folder for its output" in results["doubled"].result().notes


def test_a_program_that_would_write_to_files_of_the_user_is_stopped(folder: Path, tmp_path: Path) -> None:
    told = (
        r"it was about to write .*checkpoints/model.pt, and it is run several times; let it write nothing in its firs"
    )
    with pytest.raises(InputError, match=told):
        NumbersReference(program(folder / "home", "doubled"), tmp_path).recorded()


def test_kept_runs_are_checked_later(results: Results, folder: Path, tmp_path: Path) -> None:
    assert results["doubled"].done()
    kept = check_kept(folder / "runs", folder / "runs")
    assert kept.verdict is Numerics.BITWISE
    with pytest.raises(InputError, match="is not empty"):
        record_numbers(program(folder / "home", "same"), folder / "runs")
    with pytest.raises(InputError, match="holds no recorded numbers"):
        check_kept(tmp_path, folder / "runs")
