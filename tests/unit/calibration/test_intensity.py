"""The roofline experiment: both roofs and the ridge from made-up times, and a loop that computes what it should."""

import gc
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from redline.calibration import intensity
from redline.calibration.bench import Samples, TimingBudget, take
from redline.calibration.device import ProbeDevice
from redline.calibration.intensity import Load, NoCompilerError, make_chain

ONCE = TimingBudget(rounds=2, sample_ns=1, call_limit_ns=10**11)
SMALL_BYTES = 1 << 20


def made_up(bytes_per_s: float, flops_per_s: float, knee: float = 0.0) -> Samples[Load]:
    """A machine with these roofs. Near the ridge, time of the smaller part is added, as far as `knee` says."""
    samples: Samples[Load] = Samples()
    for repeats in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        load = Load(method="made up", flops=2 * repeats * 10**8, bytes=8 * 10**8)
        memory_ns, compute_ns = load.bytes / bytes_per_s * 1e9, load.flops / flops_per_s * 1e9
        smaller, larger = sorted((memory_ns, compute_ns))
        samples.add({load: [larger + knee * smaller * smaller / larger] * 3})
    return samples


@given(st.floats(1e10, 1e12), st.floats(4.0, 30.0))
def test_the_roofs_and_the_ridge_are_found(bytes_per_s: float, ridge: float) -> None:
    found = intensity.roofline(made_up(bytes_per_s, ridge * bytes_per_s), noise=0.0)
    assert found is not None
    assert found.bandwidth_bytes_per_s.value == pytest.approx(bytes_per_s, rel=1e-6)
    assert found.peak_flops_per_s.value == pytest.approx(ridge * bytes_per_s, rel=1e-6)
    assert found.ridge_flops_per_byte.value == pytest.approx(ridge, rel=1e-6)


def test_a_smooth_knee_hardly_moves_the_ridge() -> None:
    found = intensity.roofline(made_up(2e10, 3e11, knee=0.5), noise=0.0)
    assert found is not None
    ridge = found.ridge_flops_per_byte
    assert ridge.value == pytest.approx(15.0, rel=0.1)
    assert ridge.low <= ridge.value <= ridge.high


def test_noise_widens_the_interval_of_the_ridge() -> None:
    samples = made_up(2e10, 3e11)
    quiet, noisy = (intensity.roofline(samples, noise=noise) for noise in (0.0, 0.1))
    assert quiet is not None
    assert noisy is not None
    assert noisy.ridge_flops_per_byte.spread > 0.15 > quiet.ridge_flops_per_byte.spread


def test_points_are_in_the_order_of_their_intensity() -> None:
    found = intensity.roofline(made_up(2e10, 3e11), noise=0.0)
    assert found is not None
    assert [one.flops_per_byte for one in found.points] == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64]
    assert (found.method, found.dtype) == ("made up", "fp32")


def test_nothing_measured_is_no_roofline() -> None:
    assert intensity.roofline(Samples(), noise=0.0) is None


# --- the loop ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeats", [1, 2, 9])
def test_the_loop_does_as_many_multiply_adds_as_it_says(repeats: int) -> None:
    made = make_chain(ProbeDevice("cpu"))
    source, target = torch.linspace(0, 1, 10 * made.block), torch.zeros(10 * made.block)
    made.call(source, target, repeats)()
    expected = source.double()
    for _ in range(repeats):
        expected = expected * 0.5 + 1.0
    assert torch.allclose(target.double(), expected, atol=1e-6)


def test_arrays_are_as_large_as_the_largest_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intensity, "largest_bytes", lambda device, *, quick: SMALL_BYTES)
    device, samples = ProbeDevice("cpu"), Samples[Load]()
    cases = intensity.cases(device, quick=True)
    assert all(0.99 * SMALL_BYTES < case.key.bytes <= SMALL_BYTES for case in cases)
    take(cases, device, ONCE, samples)
    found = intensity.roofline(samples, noise=0.0)
    assert found is not None
    assert [point.flops_per_byte for point in found.points] == [0.25, 1.0, 4.0, 16.0, 64.0]
    assert "-O3" in found.method


def test_arrays_are_shared_and_given_back() -> None:
    experiment = intensity._Experiment(ProbeDevice("cpu"), make_chain(ProbeDevice("cpu")), SMALL_BYTES)
    calls = [experiment.case(repeats).prepare() for repeats in (1, 2)]
    assert len(experiment._arrays) == 2
    calls.clear()
    gc.collect()
    assert len(experiment._arrays) == 0


def test_the_loop_compiled_by_torch_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CUDA, but for the compiler, which takes seconds."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    intensity._loop.cache_clear()
    source, target = torch.ones(64), torch.zeros(64)
    intensity._compiled_by_torch(source, target, 2)()
    assert torch.equal(target, torch.full((64,), 1.75))


def test_torch_compiles_as_many_loops_as_there_are_intensities(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses to compile one piece of code again and again."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    intensity._loop.cache_clear()
    source, target = torch.full((64,), 3.0), torch.zeros(64)
    for repeats in range(1, 12):
        intensity._compiled_by_torch(source, target, repeats)()
        assert torch.allclose(target, torch.full((64,), 2 + 0.5**repeats))
    intensity._loop.cache_clear()


# --- what is declined -------------------------------------------------------------------------------------------------


def declined(quick: bool = True) -> dict[str, str]:
    samples, device = Samples[Load](), ProbeDevice("cpu")
    take(intensity.cases(device, quick=quick), device, ONCE, samples)
    assert intensity.roofline(samples, noise=0.0) is None
    return samples.declined


def test_without_a_compiler_it_is_declined_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert declined() == {"roofline experiment": "no C compiler: none of cc, gcc, clang is on the path"}


def compiler(folder: Path, script: str) -> str:
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = compiler(tmp_path, "echo 'in file chain.c' >&2; echo 'error: no OpenMP' >&2; exit 1")
    monkeypatch.setenv("CC", path)
    assert declined() == {"roofline experiment": f"{path} failed: error: no OpenMP"}


def test_a_compiler_that_fails_silently_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = compiler(tmp_path, "exit 1")
    monkeypatch.setenv("CC", path)
    assert declined() == {"roofline experiment": f"{path} failed: it said nothing"}


def test_a_compiler_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, "exec sleep 60"))
    with pytest.raises(NoCompilerError, match=r"it did not end within 0\.2 s"):
        make_chain(ProbeDevice("cpu"), limit_s=0.2)


def test_a_compiler_that_is_no_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "cc"
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    with pytest.raises(NoCompilerError, match="cc failed: Exec format error"):
        make_chain(ProbeDevice("cpu"))


def test_a_library_that_cannot_be_loaded_is_declined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, "exit 0"))  # and it made no file
    with pytest.raises(NoCompilerError, match="what the C compiler made cannot be loaded"):
        make_chain(ProbeDevice("cpu"))
