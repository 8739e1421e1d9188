"""`plan_training(measured=...)`: steps from numbers and recordings, and what is said where something is missing."""

from pathlib import Path
from typing import Any

import pytest

import redline
from redline.errors import InputError, UsageError
from redline.plan.train.measured import ACCOUNTS, TRAFFIC
from redline.verbs.plan_measured import parse_measured
from tests.support.made_profile import made_profile

RECORDED = Path(__file__).parents[2] / "data/recorded"
JOB: dict[str, Any] = {"machine": "H100-SXM5-80GB", "gpus": 64, "sequence": 8192, "batch": 128}
STEP = "step=2.6s,gpus=64,batch=128,micro_batch=1,tp=2,zero=1"
# What the recorded GPT is made of: see tests/data/recorded/README.md.
TINY = {"layers": 1, "hidden": 32, "heads": 1, "ffn": 128, "vocab": 64, "gated": 0}


def test_numbers_are_read_with_their_units() -> None:
    told = parse_measured("step=890ms, gpus=64,batch=2k,recompute=full,zero=1,memory=43.2GB,offload=0.5")
    assert told == {
        "step": 0.89, "gpus": 64, "batch": 2000, "recompute": 2, "zero": 1, "memory": 43.2e9, "offload": 0.5
    }  # fmt: skip


def test_the_plan_of_the_measured_layout_moves_towards_the_measurement() -> None:
    layout: dict[str, Any] = {"dp": 32, "tp": 2, "pp": 1, "cp": 1, "zero": 1, "micro_batch": 1, "recompute": "none"}
    plain, fitted = (
        redline.plan_training("llama-3.1-8b", **JOB, layout=layout, measured=step).plan for step in (None, STEP)
    )
    assert plain.best.step_s < fitted.best.step_s < 2.6
    assert fitted.measured is not None
    assert fitted.best.step_s == pytest.approx(fitted.measured.after["step"], rel=1e-6)
    # Without a measurement, rates of a record are no less than those of a machine that is no better.
    assert plain.best.step_s == pytest.approx(fitted.measured.before["step"], rel=0.03)


def test_a_layout_that_did_not_run_moves_too() -> None:
    layout: dict[str, Any] = {"dp": 64, "zero": 3}
    plain, fitted = (
        redline.plan_training("llama-3.1-8b", **JOB, layout=layout, measured=step).plan for step in (None, STEP)
    )
    assert plain.best.step_s < fitted.best.step_s


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ("step=2s,what=3", "'what=3' is not NAME=VALUE"),
        ("step=soon", "give a time such as 1.52s"),
        ("step=2s,batch=64,recompute=some", "there are: none, selective, full"),
        ("step=2s,batch=some", "give a number"),
        ("step=2s", "batch, micro_batch missing"),
        ("step=2s,batch=64", "micro_batch missing"),
        ("step=2s,batch=64,gpus=8,dp=8,tp=2,micro_batch=1", "are not 8 GPUs"),
        ("step=2s,batch=6,dp=4,micro_batch=1", "no multiple of dp 4"),
    ],
)
def test_what_numbers_lack_is_said(measured: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        redline.plan_training("llama-3.1-8b", **JOB, measured=measured)


def test_a_layout_alone_is_refused() -> None:
    with pytest.raises(UsageError, match="give measured as well"):
        redline.plan_training("llama-3.1-8b", **JOB, measured_layout="tp=2")


# --- recordings -------------------------------------------------------------------------------------------------------


def planned(tmp_path: Path, recording: str | Path, **more: Any) -> Any:
    job = {"machine": str(made_profile(tmp_path)), "gpus": 2, "sequence": 16, "batch": 4, "precision": "fp32"}
    return redline.plan_training(None, numbers=TINY, **{**job, **more}, measured=recording).plan


def test_a_recording_of_two_ranks_says_how_they_ran(tmp_path: Path) -> None:
    plan = planned(tmp_path, RECORDED / "ddp_rank*")
    step = plan.measured.measured
    assert set(step.inferred) == {"dp", "zero", "micro_batch", "batch"}
    assert (step.layout.dp, step.layout.zero, step.layout.micro_batch, step.batch.sequences) == (2, 0, 2, 4)
    assert step.steps == 3
    diagnosis = redline.diagnose(RECORDED / "ddp_rank*").diagnosis
    spent = {str(account): ns / 1e9 for account, ns in diagnosis.per_step.items()}
    assert step.step_s == pytest.approx(sum(spent.values()) - spent["peer wait"])
    assert sum(step.accounts.get(name, 0.0) for name in ACCOUNTS) == pytest.approx(step.step_s)
    assert step.accounts["communication"] == pytest.approx(spent["transfer"])
    assert step.accounts[TRAFFIC] >= step.accounts["communication"]
    assert any("slower ranks" in remark for remark in step.unseen)


def test_what_a_recording_does_not_say_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the measured layout: batch=64,micro_batch=1"):
        planned(tmp_path, RECORDED / "ddp_rank*", sequence=48)
    told = planned(tmp_path, RECORDED / "ddp_rank*", sequence=48, measured_layout="batch=4,micro_batch=2")
    assert told.measured.measured.batch.sequence == 48


def test_a_prediction_is_no_measurement(tmp_path: Path) -> None:
    plan = redline.plan_training("llama-3.1-8b", **JOB)
    plan.save_trace(tmp_path / "plan.json.gz")
    with pytest.raises(InputError, match="nothing of it ran"):
        redline.plan_training("llama-3.1-8b", **JOB, measured=tmp_path / "plan.json.gz")
