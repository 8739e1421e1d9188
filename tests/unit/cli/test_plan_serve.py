"""`redline plan serve` and `redline plan validate` on the command line: results, pages, and what nonsense is told."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from redline.cli import main
from redline.hardware.catalogue import find
from redline.model.huggingface import known_model
from redline.plan.serve.plan import ServingRequest, plan_serving

JOB = {
    "--model": "llama-3.1-70b", "--machine": "H100-SXM5-80GB", "--prompt": "1024", "--output-tokens": "256",
    "--precision": "fp8",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDLINE_LANG", raising=False)
    return tmp_path


def serve(*more: str) -> list[str]:
    return ["plan", "serve", *(word for pair in JOB.items() for word in pair), *more]


def refused(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    """What is said where nothing is done."""
    assert main(list(arguments)) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("redline: ")
    assert told.err.count("\n") <= 2
    return told.err.removeprefix("redline: ")


# --- serving ----------------------------------------------------------------------------------------------------------


def test_a_plan_of_serving(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(serve("--gpus", "64", "--price", "2.5", "-o", "serve.html")) == 0
    told = capsys.readouterr()
    for part in ("llama-3.1-70b on H100-SXM5-80GB, served by SGLang\nbest ", "TTFT", "per million output tokens"):
        assert part in told.out
    assert told.err == "next: open serve.html in a browser\n"
    assert (folder / "serve.html").exists()


def test_limits_decide_what_is_best(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(serve("--json", "--concurrency", "1,4,16,64,256")) == 0
    free = json.loads(capsys.readouterr().out)["best"]
    assert main(serve("--json", "--concurrency", "1,4,16,64,256", "--max-tpot", "25ms", "--max-ttft", "2s")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["best"]["tpot_s"]["value"] <= 0.025
    assert record["best"]["tokens_per_s_device"] < free["tokens_per_s_device"]
    assert (record["most_tpot_s"], record["most_ttft_s"]) == (0.025, 2)


def test_every_size_and_format_that_has_room(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*serve("--json", "--tp", "1,2,8", "--cache", "fp8", "--gpus", "8"), "--precision", "bf16,fp8"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {(one["tp"], one["dtype"]) for one in record["points"]} == {(2, "fp8"), (8, "bf16"), (8, "fp8")}
    assert {(one["tp"], one["dtype"]) for one in record["refused"]} == {(1, "bf16"), (1, "fp8"), (2, "bf16")}
    assert {one["copies"] for one in record["points"] if one["tp"] == 2} == {4}


def test_the_frontier_is_a_frontier() -> None:
    request = ServingRequest(
        model=known_model("mixtral-8x7b"), machine=find("H200-SXM"), prompt=512, output=128, engine="SGLang"
    )
    found = plan_serving(request)
    users = [one.tokens_per_s_user for one in found.frontier]
    devices = [one.tokens_per_s_device for one in found.frontier]
    assert users == sorted(users, reverse=True)
    assert devices == sorted(devices)
    assert any(one.attention_dp > 1 for one in found.points)  # experts may be spread, with attention on each


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--engine abacus", "there are no constants for an engine 'abacus'; there are: "),
        ("--precision fp6", "there is no number format 'fp6' to serve in; there are: bf16, fp8, "),
        ("--cache fp6", "there is no number format 'fp6' for the cache; there are: bf16, fp8\n"),
        ("--tp 3", "plan serve: --tp 3: none divides the 64 attention heads within 3 GPUs; give another\n"),
        ("--gpus 1 --tp 8", "plan serve: --tp 8: none divides the 64 attention heads within 1 GPUs; give another\n"),
        ("--prompt 0", "plan serve: argument --prompt: '0' is not a number of 1 or more\n"),
        ("--max-ttft soon", "plan serve: argument --max-ttft: 'soon' is not a number\n"),
        ("--max-tpot -1ms", "plan serve: argument --max-tpot: expected one argument\n"),
        ("--max-tpot 0ms", "plan serve: argument --max-tpot: '0' is not a number above 0\n"),
        ("--model bert-base", "bert-base does not write token after token; plan one that does\n"),
        ("--machine H100-SXM-96GB-HBM2e", "H100-SXM-96GB-HBM2e has no peak of 16 bits"),
        (
            "-o page.pdf",
            "plan serve: page.pdf: plan serve writes .html, .json, .txt or .sh; give the file such",
        ),
    ],
)
def test_nonsense_is_answered_with_what_to_do(more: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, serve(*more.split())).startswith(message)


# --- validation -------------------------------------------------------------------------------------------------------


def test_a_validation_is_a_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "validate", "-o", "accuracy.html", "--lang", "zh"]) == 0
    assert "规划与公开实测对照" in capsys.readouterr().out
    assert (folder / "accuracy.html").stat().st_size < 2_500_000
    assert main(["plan", "validate", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["synthetic"] is False
    assert record["step"]["dense"]["median"] < 0.05
    assert int(100 * record["step"]["siblings"]) == 98  # as every plan says


def test_a_page_has_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, ["plan", "validate", "-o", "a.pdf"]).startswith(
        "plan validate: a.pdf: plan validate writes .html, .json or .txt"
    )
