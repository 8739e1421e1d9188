"""Every nanosecond of a step and of a request is in one account, and in the right one."""

from pathlib import Path

import numpy as np
import pytest

from redline.report.serving.account_names import REQUEST_ACCOUNT_NAMES
from redline.serving.read_logs import read_serving
from redline.serving.request_ledger import RequestAccount, RequestTimes, request_ledger
from redline.serving.step_ledger import StepAccount
from tests.support.made_engine import MadeEngine, MadeRequest

SEEDS = range(12)


def _amounts(times: RequestTimes, row: int) -> dict[str, int]:
    found = {REQUEST_ACCOUNT_NAMES[account]: int(times.amounts_ns[row, account]) for account in RequestAccount}
    return {name: amount for name, amount in found.items() if amount}


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_waited_for_what_the_engine_made_them_wait_for(seed: int, tmp_path: Path) -> None:
    engine = MadeEngine(seed=seed, sequences=2 + seed % 5, tokens=16 + 24 * (seed % 4), cache=150 + 60 * (seed % 6))
    requests: list[MadeRequest] = engine.run(40)
    recording = read_serving(engine.write(tmp_path))
    ledger = request_ledger(recording)
    assert ledger.left_out == 0
    assert len(ledger.to_last_token) == len(requests)
    for row, number in enumerate(ledger.to_last_token.request.tolist()):
        request = next(one for one in requests if one.name == recording.requests.names[number])
        assert ledger.tokens[row] == request.wanted
        assert ledger.to_last_token.length_ns[row] == request.last_ns - request.came_ns
        assert _amounts(ledger.to_last_token, row) == dict(+request.waited)
        assert ledger.to_first_token.length_ns[row] == request.first_ns - request.came_ns
        assert request.first_waited is not None
        assert _amounts(ledger.to_first_token, row) == dict(+request.first_waited)


@pytest.mark.parametrize("seed", SEEDS)
def test_times_between_tokens_are_all_that_is_after_the_first(seed: int, tmp_path: Path) -> None:
    engine = MadeEngine(seed=seed, cache=150 + 60 * (seed % 6))
    engine.run(40)
    ledger = request_ledger(read_serving(engine.write(tmp_path)))
    after_first = (ledger.to_last_token.amounts_ns - ledger.to_first_token.amounts_ns).sum(axis=0)
    after_first[[RequestAccount.TO_SERVER, RequestAccount.DETOKENISE]] = 0  # of the engine alone
    assert len(ledger.between_tokens_ns) == (ledger.tokens - 1).sum()
    assert ledger.between_tokens_ns.sum(axis=0).tolist() == after_first.tolist()


def test_some_of_them_lose_their_place() -> None:
    engines = [MadeEngine(seed=seed, cache=150) for seed in SEEDS]
    for engine in engines:
        engine.run(40)
    assert sum(engine.lost > 0 for engine in engines) > len(engines) / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_add_up_to_the_nanosecond(seed: int, tmp_path: Path) -> None:
    engine = MadeEngine(seed=seed)
    engine.run(30)
    steps = request_ledger(read_serving(engine.write(tmp_path))).steps
    assert (steps.amounts_ns >= 0).all()
    assert (steps.amounts_ns.sum(axis=1) == steps.end_ns - steps.start_ns).all()
    assert steps.amounts_ns.sum() == steps.end_ns[-1] - steps.start_ns[0]
    assert steps.total_ns(StepAccount.IDLE) > 0
    assert steps.total_ns(StepAccount.HANDOVER) == 450 * len(steps)
    assert (steps.amounts_ns[:, StepAccount.SCHEDULE] == 2_000).all()


def test_a_log_that_breaks_off_tells_of_what_is_whole(tmp_path: Path) -> None:
    engine = MadeEngine(seed=3)
    engine.run(30)
    path = engine.write(tmp_path) / "engine-7.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * 0.6)])
    recording = read_serving(tmp_path)
    ledger = request_ledger(recording)
    assert recording.dropped_lines == 1
    assert ledger.left_out > 0
    assert (ledger.to_last_token.amounts_ns.sum(axis=1) == ledger.to_last_token.length_ns).all()


def test_without_the_server_a_request_begins_in_the_engine(tmp_path: Path) -> None:
    engine = MadeEngine(seed=3)
    engine.run(10)
    (engine.write(tmp_path) / "server-8.jsonl").unlink()
    times = request_ledger(read_serving(tmp_path)).to_last_token
    around = (RequestAccount.TOKENISE, RequestAccount.TO_ENGINE, RequestAccount.TO_SERVER, RequestAccount.DETOKENISE)
    assert not times.amounts_ns[:, list(around)].any()
    assert (times.amounts_ns.sum(axis=1) == times.length_ns).all()


def test_steps_that_are_scheduled_ahead_add_up_too(tmp_path: Path) -> None:
    """With a queue of batches, a step is scheduled before the one before it has ended."""
    engine = MadeEngine(seed=5)
    engine.run(30)
    before_ns = 0
    for record in engine.engine:
        if record[0] == "step":
            times = record[2]
            assert isinstance(times, list)
            times[0], times[1] = max(before_ns - 3_000, 0) or times[0], max(before_ns - 2_000, 0) or times[1]
            before_ns = times[-1]
    ledger = request_ledger(read_serving(engine.write(tmp_path)))
    assert (ledger.steps.amounts_ns >= 0).all()
    assert (ledger.steps.amounts_ns.sum(axis=1) == ledger.steps.end_ns - ledger.steps.start_ns).all()
    for times in (ledger.to_first_token, ledger.to_last_token):
        assert (times.amounts_ns.sum(axis=1) == times.length_ns).all()
        assert np.all(times.length_ns > 0)
