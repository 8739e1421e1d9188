"""What a device lets a probe use: memory within the limit of a container, and a GPU that works."""

from pathlib import Path

import pytest
import torch

from redline.calibration.device import ProbeDevice
from redline.capture.process import available_bytes
from redline.errors import InputError

MIB = 1 << 20


def grouped(folder: Path, limit: str, used: int, idle_files: int) -> int:
    for name, text in {
        "memory.max": limit,
        "memory.current": str(used),
        "memory.stat": f"anon 5\ninactive_file {idle_files}\n",
    }.items():
        (folder / name).write_text(f"{text}\n")
    return available_bytes(str(folder))


def test_the_limit_of_a_container_counts_without_files_that_are_only_kept(tmp_path: Path) -> None:
    assert grouped(tmp_path, str(10 * MIB), used=9 * MIB, idle_files=5 * MIB) == 6 * MIB
    assert grouped(tmp_path, str(10 * MIB), used=11 * MIB, idle_files=0) == 0


def test_the_first_version_of_control_groups(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for name, text in {"limit_in_bytes": f"{8 * MIB}", "usage_in_bytes": f"{3 * MIB}", "stat": "cache 1"}.items():
        (tmp_path / "memory" / f"memory.{name}").write_text(text)
    assert available_bytes(str(tmp_path)) == 5 * MIB


def test_without_a_limit_it_is_what_the_machine_has(tmp_path: Path) -> None:
    assert available_bytes(str(tmp_path)) == pytest.approx(available_bytes(), rel=0.2)
    assert grouped(tmp_path, "max", used=MIB, idle_files=0) == pytest.approx(available_bytes(), rel=0.2)


def test_a_gpu_that_does_not_work_is_refused_in_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable\nand much more")

    monkeypatch.setattr(torch, "ones", taken)
    with pytest.raises(InputError) as told:
        ProbeDevice("cuda").refuse_unless_usable()
    assert str(told.value) == (
        "calibrate: the GPU cannot be used: CUDA error: all CUDA-capable devices are busy or unavailable\n"
        "free it, or set CUDA_VISIBLE_DEVICES= (to nothing) to measure the CPU"
    )


def test_a_cpu_always_works() -> None:
    ProbeDevice("cpu").refuse_unless_usable()
