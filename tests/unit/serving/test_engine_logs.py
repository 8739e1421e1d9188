"""Of several engines behind one server, one is told of, with its own workers and requests alone."""

import json
from pathlib import Path

import numpy as np

from redline.report.serving.serving_tables import requests_line
from redline.serving.diagnose_serving import diagnose_serving
from redline.serving.read_logs import read_serving
from redline.serving.request_ledger import request_ledger
from redline.serving.step_ledger import StepAccount
from tests.support.made_engine import MadeEngine


def _lines(path: Path, records: list[list[object]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def _write(folder: Path, engine: MadeEngine, pid: int) -> None:
    """As an engine with a worker of its own; names of its requests are its own too."""
    told = json.loads(json.dumps(engine.engine).replace('"r', f'"{pid}-r').replace(f'"{pid}-request"', '"request"'))
    _lines(
        folder / f"engine-{pid}.jsonl",
        [["log", {"pid": pid, "ppid": 1}], *(record for record in told if record[0] != "phase")],
    )
    _lines(
        folder / f"engine-{pid + 1}.jsonl",
        [["log", {"pid": pid + 1, "ppid": pid}], *(record for record in told if record[0] == "phase")],
    )
    served = json.loads(json.dumps(engine.server).replace('"r', f'"{pid}-r').replace(f'"{pid}-ready"', '"ready"'))
    _lines(folder / f"server-{pid + 2}.jsonl", served)


def test_the_one_with_the_most_steps_is_told_of(tmp_path: Path) -> None:
    alone, both = tmp_path / "alone", tmp_path / "both"
    busy, calm = MadeEngine(seed=1), MadeEngine(seed=2)
    busy.run(30)
    calm.run(6)
    for folder in (alone, both):
        folder.mkdir()
        _write(folder, busy, 100)
    _write(both, calm, 50)
    one, of_two = read_serving(alone), read_serving(both)
    assert (one.engines, of_two.engines) == (1, 2)
    assert one.requests.names == of_two.requests.names
    expected, found = request_ledger(one), request_ledger(of_two)
    assert np.array_equal(found.steps.amounts_ns, expected.steps.amounts_ns)
    assert np.array_equal(found.to_last_token.amounts_ns, expected.to_last_token.amounts_ns)
    assert found.steps.total_ns(StepAccount.DECODE) > 0  # of its own worker
    assert found.left_out == 0
    told = diagnose_serving(both)
    assert told is not None
    assert requests_line(told).endswith("of 2 engines, the one with the most steps")
