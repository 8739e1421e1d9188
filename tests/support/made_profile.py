"""A profile of a CPU, as `redline calibrate` would write it on a quiet machine."""

from pathlib import Path

from redline.hardware.machine import Figure, FigureSource, Machine
from redline.hardware.profile import save_profile

FIGURES = {"peak_flops_per_s.fp32": 100e9, "memory_bytes_per_s": 10e9, "memory_bytes": 16e9}


def made_profile(folder: Path) -> Path:
    """100 GFLOP/s in 32 bits and 10 GB/s: about one core."""
    figures = {
        name: Figure(value=value, source="made", date="2026-11-19", origin=FigureSource.CALIBRATED)
        for name, value in FIGURES.items()
    }
    path = folder / "machine.json"
    save_profile(Machine(name="a core", architecture="cpu", figures=figures), path, force=True, made_by="tests")
    return path
