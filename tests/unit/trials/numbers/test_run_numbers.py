"""Files of recorded numbers: written by ranks, read and put together, refused where they are damaged."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from redline.capture.worker.numbers.recording import LocalPart, NumbersRecording, add_to_sketch
from redline.errors import InputError
from redline.trials.numbers.run_numbers import TensorKey, read_run
from tests.support.recorded_numbers import FACTS, recorded

WEIGHT = TensorKey(0, "gradient", "weight")


def shard(whole: torch.Tensor, rows: slice) -> NumbersRecording:
    """What a rank records that has these rows of a tensor."""
    recording = recorded(whole)
    tensor = recording.tensors[WEIGHT]
    tensor.copy = "mesh0"
    index = torch.arange(whole.numel()).reshape(whole.shape)[rows].reshape(-1)
    part = LocalPart(whole[rows], tuple(whole.shape), index)
    tensor.sketch.sums.zero_()
    tensor.sketch.square_sum = 0.0
    tensor.hashes[:] = [add_to_sketch(tensor.sketch, part.values, part.index, 0).hex()]
    return recording


def test_what_is_written_is_read(tmp_path: Path) -> None:
    values = torch.randn(40, 30)
    recording = recorded(values)
    recording.add(0, "loss", "loss", torch.tensor(2.0), summed=True)
    recording.add(0, "loss", "loss", torch.tensor(0.5), summed=True)
    recording.notes["something"] = None
    recording.write(str(tmp_path), 0, FACTS)
    run = read_run(tmp_path)
    assert (run.world, run.steps, run.by_optimizer, run.notes) == (1, 1, True, ("something",))
    (tensor,) = run.tensors[WEIGHT]
    assert (tensor.copy, tensor.shape, tensor.dtype) == ("rank 0", (40, 30), "float32")
    assert tensor.square_sum == pytest.approx(float(values.double().square().sum()))
    (loss,) = run.tensors[TensorKey(0, "loss", "loss")]
    assert (loss.shape, loss.sketch.tolist()) == ((), [2.5])


def test_parts_of_a_batch_are_the_batch(tmp_path: Path) -> None:
    batch = torch.randn(8, 100)
    parts = NumbersRecording()
    for part in (batch[:3], batch[3:]):
        parts.add(0, "gradient", "weight", part)
    for name, recording in (("whole", recorded(batch)), ("parts", parts)):
        (tmp_path / name).mkdir()
        recording.write(str(tmp_path / name), 0, FACTS)
    (whole,), (made,) = (read_run(tmp_path / name).tensors[WEIGHT] for name in ("whole", "parts"))
    assert made.shape == whole.shape
    np.testing.assert_allclose(made.sketch, whole.sketch, atol=1e-10)


def test_shards_of_ranks_are_one_tensor(tmp_path: Path) -> None:
    whole = torch.randn(60, 50)
    for rank, rows in enumerate((slice(0, 25), slice(25, 60))):
        shard(whole, rows).write(str(tmp_path), rank, {**FACTS, "world": 2})
    (tmp_path / "one").mkdir()
    recorded(whole).write(str(tmp_path / "one"), 0, FACTS)
    (made,), (expected,) = read_run(tmp_path).tensors[WEIGHT], read_run(tmp_path / "one").tensors[WEIGHT]
    np.testing.assert_allclose(made.sketch, expected.sketch, atol=1e-10)
    assert made.square_sum == pytest.approx(expected.square_sum)


def test_movement_needs_no_copy_of_the_start(tmp_path: Path) -> None:
    start = torch.randn(50, 60)
    moved = start + 1e-6 * torch.randn(50, 60)
    recording = recorded(start)
    recording.add_difference(0, "movement", "weight", moved, recording.tensors[WEIGHT])
    recording.write(str(tmp_path), 0, FACTS)
    (movement,) = read_run(tmp_path).tensors[TensorKey(0, "movement", "weight")]
    assert np.sqrt(movement.square_sum) == pytest.approx(float((moved - start).norm()), rel=0.25)


def test_a_rank_that_is_missing_is_told(tmp_path: Path) -> None:
    recorded(torch.ones(3)).write(str(tmp_path), 1, {**FACTS, "world": 2})
    with pytest.raises(InputError, match=r"holds the numbers of 1 of 2 ranks; record them again$"):
        read_run(tmp_path)


def test_a_recording_that_failed_inside_is_told(tmp_path: Path) -> None:
    recorded(torch.ones(3)).write(str(tmp_path), 0, {**FACTS, "failure": "ValueError: why"})
    with pytest.raises(InputError, match="rank 0 could not be recorded: ValueError: why"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-8], "is cut short"),
        (lambda data: b"nonsense", "damaged, or not recorded numbers"),
        (lambda data: b"[1]\n", "damaged, or not recorded numbers"),
        (lambda data: b"{}\n", "was not written by Redline"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: object, message: str) -> None:
    recorded(torch.ones(3)).write(str(tmp_path), 0, FACTS)
    (path,) = tmp_path.glob("rank-*")
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        read_run(tmp_path)


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no recorded numbers"):
        read_run(tmp_path)
