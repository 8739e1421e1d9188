"""A real vLLM server under load: its steps and requests are accounted for, and answers are what they were."""

import json
from pathlib import Path

import pytest

import redline
from bench.serving.vllm_server import PYTHON, make_model, measure, server
from redline.serving.diagnose_serving import ClientTimes, diagnose_serving, read_client, rows_of_requests, with_client
from redline.serving.read_logs import read_serving
from redline.serving.recording import ServingRecording
from redline.serving.request_ledger import RequestAccount, request_ledger
from redline.serving.step_ledger import StepAccount

pytestmark = pytest.mark.skipif(PYTHON is None, reason="REDLINE_VLLM_PYTHON names no Python with vLLM")
REQUESTS = 60
LOAD = ("--num-prompts", str(REQUESTS), "--random-input-len", "64", "--random-output-len", "16")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A server that nobody watches, and what its client got."""
    folder = tmp_path_factory.mktemp("plain")
    model = make_model(folder / "tiny")
    with server(model, None, "--max-num-seqs", "8") as running:
        return model, measure(running.address, model, folder / "client.json", *LOAD)


@pytest.fixture(scope="module")
def watched(plain: tuple[Path, dict[str, object]], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of a run, and the client's file."""
    folder = tmp_path_factory.mktemp("watched")
    with server(plain[0], folder / "run", "--max-num-seqs", "8") as running:
        measure(running.address, plain[0], folder / "client.json", *LOAD)
    return folder / "run", folder / "client.json"


@pytest.fixture(scope="module")
def recorded(watched: tuple[Path, Path]) -> tuple[ServingRecording, ClientTimes]:
    return read_serving(watched[0]), read_client(watched[1])


def test_answers_are_the_same_byte_for_byte(plain: tuple[Path, dict[str, object]], watched: tuple[Path, Path]) -> None:
    told = json.loads(watched[1].read_text(encoding="utf-8"))
    assert told["generated_texts"] == plain[1]["generated_texts"]
    assert told["completed"] == REQUESTS


def test_steps_add_up_and_nine_tenths_have_a_name(recorded: tuple[ServingRecording, ClientTimes]) -> None:
    steps = request_ledger(recorded[0]).steps
    assert (steps.amounts_ns >= 0).all()
    assert (steps.amounts_ns.sum(axis=1) == steps.end_ns - steps.start_ns).all()
    asked_ns = steps.amounts_ns.sum() - steps.total_ns(StepAccount.IDLE)
    assert steps.total_ns(StepAccount.WORKER) < 0.1 * asked_ns


def test_requests_add_up_to_what_their_client_measured(recorded: tuple[ServingRecording, ClientTimes]) -> None:
    recording, client = recorded
    ledger = with_client(request_ledger(recording), recording, client)
    row = rows_of_requests(client, recording)[ledger.to_last_token.request]
    ours = row >= 0
    assert ours.sum() == REQUESTS
    for times, measured_ns in (
        (ledger.to_first_token, client.first_token_ns),
        (ledger.to_last_token, client.last_token_ns),
    ):
        assert (times.amounts_ns.sum(axis=1) == times.length_ns).all()
        assert (abs(times.length_ns[ours] - measured_ns[row[ours]]) < 1_000_000).all()
        assert (times.amounts_ns[ours, RequestAccount.NETWORK] > 0).mean() > 0.9


def test_tokens_are_those_that_the_client_got(
    recorded: tuple[ServingRecording, ClientTimes], watched: tuple[Path, Path]
) -> None:
    told = json.loads(watched[1].read_text(encoding="utf-8"))
    recording, client = recorded
    ledger = request_ledger(recording)
    rows = rows_of_requests(client, recording)[ledger.to_last_token.request]
    assert [int(told["output_lens"][row]) for row in rows[rows >= 0].tolist()] == ledger.tokens[rows >= 0].tolist()


def test_the_limit_of_sequences_is_named(watched: tuple[Path, Path]) -> None:
    found = diagnose_serving(watched[0])
    assert found is not None
    assert found.causes[0].code == "RL-V01"
    assert found.causes[0].figures["limit"] == 8


def test_the_engine_tells_what_causes_need(recorded: tuple[ServingRecording, ClientTimes]) -> None:
    settings = recorded[0].settings
    assert settings["device_type"] == "cpu"
    assert settings["threads"] == 2
    assert int(str(settings["cores"])) >= 1
    assert str(settings["dtype"]).endswith("bfloat16")
    assert isinstance(settings["model_config"], dict)
    assert recorded[0].asked.get("logprobs", 0) == 0


def test_a_window_opens_when_the_engine_becomes_busy(plain: tuple[Path, dict[str, object]], tmp_path: Path) -> None:
    """And what requests ask for, and where prompts begin alike, is noted."""
    options = ("--max-num-seqs", "8", "--no-enable-prefix-caching")
    load = (*LOAD[:2], "--random-prefix-len", "128", "--random-input-len", "16", "--random-output-len", "8")
    with server(plain[0], tmp_path / "run", *options, watch=("--when", "running>3")) as running:
        measure(running.address, plain[0], tmp_path / "client.json", *load, "--logprobs", "2")
    recording = read_serving(tmp_path / "run")
    assert recording.asked["logprobs"] >= REQUESTS
    assert len(recording.prefixes) > len(set(recording.prefixes.tolist()))
    found = redline.diagnose(tmp_path / "run", client=tmp_path / "client.json")
    assert found.serving is not None
    assert found.captured is not None
    assert found.captured.condition == "running>3"
    assert found.serving.steps.amounts_ns[StepAccount.RECORDING] > 0
