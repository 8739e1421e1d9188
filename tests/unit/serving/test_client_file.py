"""What only a client knows: the network, as the part of its time that the server does not have."""

import json
from pathlib import Path

import pytest

import redline
from redline.errors import InputError, UsageError
from redline.report.serving.cause_messages import cause_text
from redline.serving.diagnose_serving import diagnose_serving, read_client, with_client
from redline.serving.read_logs import read_serving
from redline.serving.request_ledger import RequestAccount, request_ledger
from tests.support.command_line import ROOT
from tests.support.made_engine import MadeEngine, MadeRequest

BESIDES_NS = 3_000_000


def _served(folder: Path, besides_ns: int = BESIDES_NS) -> Path:
    """A run, and beside it what its client measured: so much more than the server."""
    engine = MadeEngine(seed=3)
    requests: list[MadeRequest] = engine.run(30)
    names = {request.name: f"cmpl-bench-0a1b-{number}-0" for number, request in enumerate(requests)}
    text = json.dumps([engine.engine, engine.server])
    for name, other in names.items():
        text = text.replace(f'"{name}"', f'"{other}"')
    engine.engine, engine.server = json.loads(text)
    first = [(request.first_ns - request.came_ns + besides_ns) / 1e9 for request in requests]
    after = [[(request.last_ns - request.first_ns) / 1e9] for request in requests]
    errors = ["gone" if number == 7 else "" for number in range(len(requests))]
    told = {"ttfts": first, "itls": after, "errors": errors}
    (folder / "client.json").write_text(json.dumps(told), encoding="utf-8")
    return engine.write(folder)


def test_what_the_server_does_not_have_is_the_network(tmp_path: Path) -> None:
    recording = read_serving(_served(tmp_path))
    ledger = with_client(request_ledger(recording), recording, read_client(tmp_path / "client.json"))
    for times in (ledger.to_first_token, ledger.to_last_token):
        assert (times.amounts_ns.sum(axis=1) == times.length_ns).all()
        besides = times.amounts_ns[:, RequestAccount.NETWORK].tolist()
        assert besides.pop(7) == 0  # which failed
        assert besides == pytest.approx([BESIDES_NS] * 29, abs=2)


def test_a_client_that_takes_long_is_named(tmp_path: Path) -> None:
    _served(tmp_path, besides_ns=80_000_000)
    found = diagnose_serving(tmp_path, tmp_path / "client.json")
    assert found is not None
    assert found.causes[0].code == "RL-V13"
    assert "is neither in the server nor in the engine." in cause_text(found.causes[0]).evidence


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", '{"ttfts": [1.0]}', '{"ttfts": [1], "itls": [2], "errors": [""]}'),
        '{"ttfts": ["abcdefgh"], "itls": [[1]], "errors": [""]}',  # a text a billion times is gigabytes
        '{"ttfts": [1e18], "itls": [[1]], "errors": [""]}',
        '{"ttfts": [NaN], "itls": [[1]], "errors": [""]}',
        '{"ttfts": [-1], "itls": [[1]], "errors": [""]}',
    ],
)
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="is damaged, or not detailed results of `vllm bench serve`"):
        read_client(path)


def test_columns_of_different_requests_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "client.json"
    path.write_text('{"ttfts": [1, 2], "itls": [[1]], "errors": [""]}', encoding="utf-8")
    with pytest.raises(InputError, match="its columns are of different requests; measure again"):
        read_client(path)


def test_figures_that_are_no_numbers_elsewhere_in_it_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "client.json"
    path.write_text('{"mean_itl_ms": NaN, "ttfts": [1], "itls": [[0.5]], "errors": [""]}', encoding="utf-8")
    assert read_client(path).last_token_ns.tolist() == [1_500_000_000]


def test_a_file_about_other_requests_is_refused(tmp_path: Path) -> None:
    engine = MadeEngine(seed=3)
    engine.run(5)
    _served(tmp_path)
    engine.write(tmp_path)
    with pytest.raises(InputError, match="tells of none of the requests of this run"):
        diagnose_serving(tmp_path, tmp_path / "client.json")


def test_a_client_of_what_is_no_server_is_refused(tmp_path: Path) -> None:
    trace = next((ROOT / "tests" / "data" / "recorded").rglob("*.json*"))
    with pytest.raises(UsageError, match="is for the run of a server, and this is none"):
        redline.diagnose(trace, client=tmp_path / "client.json")
