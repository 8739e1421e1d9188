"""A profile overrides figures and says so; anything wrong with its file is said in one line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from redline.errors import InputError, OutputError, UnknownHardwareError
from redline.hardware.catalogue import find
from redline.hardware.machine import Figure, FigureSource, Machine, calibrated
from redline.hardware.profile import choose, is_profile_path, load_profile, save_profile

MEASURED = {"value": 3e12, "when": "2026-08-14", "how": "copy of 4 GB", "spread": 0.01}
SOUND: dict[str, Any] = {
    "kind": "machine-profile",
    "schema_version": 1,
    "made_by": "a test",
    "synthetic": False,
    "redline_version": "0.1.0",
    "name": "our H100",
    "base": "H100-SXM5-80GB",
    "figures": {"memory_bytes_per_s": MEASURED},
}


def written(folder: Path, **changes: object) -> Path:
    path = folder / "profile.json"
    path.write_text(json.dumps({**SOUND, **changes}))
    return path


def test_a_profile_overrides_its_base(tmp_path: Path) -> None:
    machine = load_profile(written(tmp_path, notes=["under the desk"]))
    base = find("H100-SXM5-80GB")
    assert (machine.name, machine.base, machine.synthetic) == ("our H100", base.name, False)
    assert machine.memory_bytes_per_s == Figure(
        value=3e12, source="copy of 4 GB", date="2026-08-14", origin=FigureSource.CALIBRATED, spread=0.01
    )
    assert machine.peak_flops_per_s("bf16") == base.peak_flops_per_s("bf16")
    assert machine.notes == (*base.notes, "under the desk")


def test_a_profile_may_stand_alone(tmp_path: Path) -> None:
    figures = {"peak_flops_per_s.fp32": {"value": 1, "when": "2026-08", "how": "matmul"}}
    machine = load_profile(written(tmp_path, name="a CPU", base="", vendor="Intel", figures=figures, synthetic=True))
    assert machine == Machine(
        name="a CPU",
        vendor="Intel",
        synthetic=True,
        figures={
            "peak_flops_per_s.fp32": Figure(value=1.0, source="matmul", date="2026-08", origin=FigureSource.CALIBRATED)
        },
    )


def test_a_figure_that_is_not_usable_is_as_good_as_not_known(tmp_path: Path) -> None:
    """It says so itself; profiles of before are judged by their intervals."""
    figures = {
        "memory_bytes_per_s": {**MEASURED, "unusable": "others had the processors"},
        "best_matmul_flops_per_s.bf16": {**MEASURED, "spread": 0.26},
        "pcie_bytes_per_s": {**MEASURED, "spread": 0.25},
    }
    machine = load_profile(written(tmp_path, figures=figures))
    base = find("H100-SXM5-80GB")
    assert machine.memory_bytes_per_s == base.memory_bytes_per_s
    assert machine.best_matmul_flops_per_s("bf16") == base.best_matmul_flops_per_s("bf16")
    assert machine.figures["pcie_bytes_per_s"].value == 3e12
    assert {name: figure.unusable for name, figure in machine.unusable.items()} == {
        "memory_bytes_per_s": "others had the processors",
        "best_matmul_flops_per_s.bf16": "its interval reaches 26 % to one side, more than 25 %",
    }
    save_profile(machine, tmp_path / "again.json", made_by="a test")
    assert load_profile(tmp_path / "again.json") == machine


FIGURE = Figure(value=2.5e12, source="how", date="2026-08-14", origin=FigureSource.CALIBRATED, spread=0.1)


@pytest.mark.parametrize(
    "machine",
    [
        Machine(name="CPU ü", vendor="Intel", architecture="x86", notes=("a",), figures={"memory_bytes_per_s": FIGURE}),
        calibrated(find("MI300X"), "ours", {"launch_ns": FIGURE}, notes=("a",), synthetic=True),
        calibrated(find("Trainium2"), "untouched", {}),
    ],
)
def test_what_is_saved_is_what_is_loaded(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    save_profile(machine, path, made_by="a test")
    assert load_profile(path) == machine
    assert json.loads(path.read_text())["made_by"] == "a test"
    with pytest.raises(OutputError, match="already exists; use `force=True`"):
        save_profile(machine, path, made_by="a test")
    save_profile(machine, path, made_by="a test", force=True)


def test_a_profile_that_would_lose_figures_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="MI300X: memory_bytes was not calibrated and has no record to be read from"):
        save_profile(find("MI300X"), tmp_path / "p.json", made_by="a test")
    orphan = calibrated(Machine(name="of nowhere"), "ours", {})
    with pytest.raises(ValueError, match="ours: its base 'of nowhere' is no record of the catalogue"):
        save_profile(orphan, tmp_path / "p.json", made_by="a test")
    assert not list(tmp_path.iterdir())


def changed(**changes: object) -> dict[str, object]:
    return {"figures": {"memory_bytes_per_s": {**MEASURED, **changes}}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "inspection"}, "PATH holds a 'inspection', not a 'machine-profile'; give a file of that kind"),
        ({"schema_version": 2}, "PATH was written by Redline 0.1.0 in schema 2 of 'machine-profile'; this is"),
        ({"name": " "}, "PATH names no machine: its field 'name' is empty; correct or remake it"),
        ({"name": 5}, "PATH is damaged, or not a machine profile: Expected `str`, got `int` - at `$.name`; correct"),
        ({"basis": "x"}, "PATH is damaged, or not a machine profile: Object contains unknown field `basis`; correct"),
        ({"figures": []}, "PATH is damaged, or not a machine profile: Expected `object`, got `array` - at `$.figures`"),
        ({"base": "H1000"}, "PATH is based on the record 'H1000', which the catalogue does not have; `redline har"),
        (
            {"figures": {"memory_gb": MEASURED}},
            "PATH: there is no figure 'memory_gb'; there are: memory_bytes, memory_bytes_per_s, peak_flops_per_s",
        ),
        (changed(value=0), "PATH: figures: memory_bytes_per_s: the value 0.0 is not above zero; leave out what is"),
        (changed(value="fast"), "PATH is damaged, or not a machine profile: Expected `float`, got `str`"),
        (changed(value=True), "PATH is damaged, or not a machine profile: Expected `float`, got `bool`"),
        (changed(when="today"), "PATH: figures: memory_bytes_per_s: 'today' in 'when' is not a date; write it like"),
        (changed(how=""), "PATH: figures: memory_bytes_per_s: 'how' is empty; say how it was measured"),
        (changed(spread=-1), "PATH: figures: memory_bytes_per_s: the spread -1.0 is not a share of the value, such"),
        (changed(value=1e19), "PATH: figures: memory_bytes_per_s: 1e+19 B/s is not between 1 and 1e+18; correct it or"),
        (changed(value=0.5), "PATH: figures: memory_bytes_per_s: 0.5 B/s is not between 1 and 1e+18; correct it or"),
        (
            changed(value=1e300),
            "PATH is damaged, or not a machine profile: figures.memory_bytes_per_s.value = 1e+300 is out of range",
        ),
        (
            changed(spread=1e-40),
            "PATH is damaged, or not a machine profile: figures.memory_bytes_per_s.spread = 1e-40 is out of range",
        ),
        (
            {"calibration": {"peaks": [{"low": -1e200}]}},
            "PATH is damaged, or not a machine profile: calibration.peaks[].low = -1e+200 is out of range",
        ),
        (changed(unit="B"), "PATH is damaged, or not a machine profile: Object contains unknown field `unit`"),
    ],
)
def test_a_bad_profile_is_one_line(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    path = written(tmp_path, **changes)
    refused(path, message)


def refused(path: Path, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        load_profile(path)
    assert str(refusal.value).startswith(message.replace("PATH", str(path)))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "PATH is damaged, or not a machine profile: "),
        (b'{"kind": "machine-pro', "PATH is damaged, or not a machine profile: "),
        (b"\xff\xfe", "PATH is damaged, or not a machine profile: "),
        (b"[" * 100_000, "PATH is damaged, or not a machine profile: "),
        (b'{"kind": NaN}', "PATH is damaged, or not a machine profile: "),
        (b"[]", "PATH is damaged, or not a machine profile: Expected `object`, got `array`"),
        (b"{}", "PATH was not written by Redline: it has no field 'kind'; check that it is the right file"),
        (b" " * 10_000_001, "PATH is above 10 MB, so it is not a machine profile; give another file"),
    ],
)
def test_a_damaged_profile_is_one_line(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(data)
    refused(path, message)


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    refused(tmp_path / "p.json", "cannot read PATH as a machine profile: No such file or directory; check its name")
    refused(tmp_path, "PATH is a folder; give the name of an ordinary file")


def test_the_user_chooses_else_the_device_decides(tmp_path: Path) -> None:
    assert choose(None, "NVIDIA H20", 102010781696, 78).name == "H20"
    assert choose("h100 pcie", "NVIDIA H20").name == "H100-PCIe-80GB"
    assert choose(str(written(tmp_path)), "").name == "our H100"
    with pytest.raises(UnknownHardwareError, match="the device has no name"):
        choose(None, "")
    with pytest.raises(UnknownHardwareError, match="'h100' could be"):
        choose("h100", "NVIDIA H100 80GB HBM3")
    with pytest.raises(InputError, match=re.escape("cannot read h20.json as a machine profile")):
        choose("h20.json", "NVIDIA H20")


def test_a_record_wins_over_a_file_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("H20", "mine"):
        written(tmp_path).rename(tmp_path / name)
    assert [is_profile_path(text) for text in ("H20", "./H20", "mine", "none", "x" * 5000)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert choose("mine", "").name == "our H100"
