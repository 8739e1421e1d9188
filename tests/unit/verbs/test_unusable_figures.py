"""Figures of a profile that cannot be used: plans are those of the catalogue, or refused, and each says the reason."""

import json
from pathlib import Path

import pytest

from redline.cli import main
from redline.hardware.catalogue import find
from redline.hardware.machine import Figure, FigureSource, Machine, calibrated, why_unusable
from redline.hardware.profile import save_profile
from redline.ledger.job.first_screen import Remark, Unseen
from redline.report.diagnose.fact_messages import no_mfu_line
from redline.report.diagnose.unseen_messages import unseen
from redline.report.language import speaking

TRAIN = "plan train --model llama-3.1-8b --gpus 8 --sequence 4096 --batch 64 --machine"
SERVE = "plan serve --model llama-3.1-8b --prompt 1000 --output-tokens 100 --concurrency 4 --machine"
WHY = "its interval reaches 89 % to one side, more than 25 %"


def rough(value: float) -> Figure:
    return Figure(
        value=value, source="measured", date="2026-11-16", origin=FigureSource.CALIBRATED, spread=0.89, unusable=WHY
    )


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDLINE_LANG", raising=False)
    return tmp_path


def saved(machine: Machine) -> str:
    save_profile(machine, Path("machine.json"), made_by="a test", force=True)
    return "machine.json"


@pytest.mark.parametrize("words", [TRAIN, SERVE])
def test_a_plan_with_a_rough_profile_is_that_of_the_record(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    base = find("H100-SXM5-80GB")
    measured = {"memory_bytes_per_s": rough(1e9), "best_matmul_flops_per_s.bf16": rough(1e12)}
    profile = saved(calibrated(base, base.name, measured))
    plans = []
    for machine in (base.name, profile):
        assert main([*words.split(), machine, "--json"]) == 0
        plans.append(json.loads(capsys.readouterr().out))
    assert plans[0] == plans[1]
    assert main([*words.split(), profile]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "In the profile, measured figures are not used: memory_bytes_per_s, best_matmul_flops_per_s.bf16 "
        f"(memory_bytes_per_s: {WHY}); calibrate again on a quiet machine."
    ) in text


@pytest.mark.parametrize(
    ("words", "needed"), [(TRAIN, "peak_flops_per_s.bf16"), (SERVE, "memory_bytes_per_s, peak_flops_per_s.bf16")]
)
def test_a_plan_that_needs_them_is_refused_with_the_reason(
    words: str, needed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {name: rough(1e12) for name in ("peak_flops_per_s.bf16", "memory_bytes_per_s", "dispatch_ns")}
    assert main([*words.split(), saved(Machine(name="ours", unusable=figures))]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"\nmeasured figures are not used: {needed} (" in told.err
    assert told.err.endswith(f": {WHY}); calibrate again on a quiet machine\n")


@pytest.mark.parametrize(
    ("language", "line"),
    [
        (
            "en",
            "unknown: no usable peak for fp32 in the profile: measured figures are not used: peak_flops_per_s.fp32 "
            f"(peak_flops_per_s.fp32: {WHY}); calibrate again on a quiet machine",
        ),
        (
            "zh",
            "未知：该 profile 中没有 fp32 可用的峰值：以下实测数值未被采用：peak_flops_per_s.fp32"
            "（peak_flops_per_s.fp32：其区间单侧达 89 %，超过 25 %）；请在空闲的机器上重新标定",
        ),
    ],
)
def test_a_diagnosis_says_why_there_is_no_mfu(language: str, line: str) -> None:
    detail = why_unusable(Machine(name="ours", unusable={"peak_flops_per_s.fp32": rough(1e10)}))
    remark = Remark(what=Unseen.UNUSABLE_FIGURES, ranks=1, detail=detail)
    prefix, first = ("in the profile, ", "measured figures") if language == "en" else ("该 profile 中，", "以下")
    with speaking(language):
        assert no_mfu_line([Remark(what=Unseen.NO_DTYPE_PEAK, detail="fp32"), remark], on_cpu=True) == line
        assert unseen(remark, 1) == f"{prefix}{line[line.index(first) :]}"
