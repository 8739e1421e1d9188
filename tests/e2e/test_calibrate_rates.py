"""Without a profile, a trace of a CPU is declined; with that of a calibration it is rated, and says against what."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from redline.hardware.machine import Origin
from redline.hardware.profile import load_profile
from tests.conftest import ROOT, run_redline

TRACE = ROOT / "tests/data/recorded/plain_loop.pt.trace.json.gz"


def diagnosed(folder: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """What is said of the MFU, however it is broken into lines, and the JSON."""
    text = run_redline("diagnose", str(TRACE), *options, cwd=folder).stdout
    record = json.loads(run_redline("diagnose", str(TRACE), *options, "--json", cwd=folder).stdout)
    return " ".join(text[text.index("\nMFU") :].split()), record


def test_a_trace_of_a_cpu_is_declined_without_a_profile_and_rated_with_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = run_redline("calibrate", "--quick", "--only", "compute,memory", "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    machine = load_profile(tmp_path / "machine.json")
    peak, bandwidth = machine.peak_flops_per_s("fp32"), machine.memory_bytes_per_s
    assert peak is not None
    assert bandwidth is not None
    assert peak.origin is bandwidth.origin is Origin.CALIBRATED

    said, record = diagnosed(tmp_path)
    assert said.startswith("MFU not known: the catalogue has no CPUs; ")
    assert record["utilisation"] is None

    said, record = diagnosed(tmp_path, "--machine", "machine.json")
    assert re.match(r"MFU .*; peak: calibrated, within \d", said)
    assert record["utilisation"]["peak_origins"] == ["calibrated"]
    assert record["utilisation"]["peaks"] == {"fp32": peak.value}
    assert 0 < record["utilisation"]["mfu"] <= 1.5
    assert record["utilisation"]["peak_spread"] == peak.spread
