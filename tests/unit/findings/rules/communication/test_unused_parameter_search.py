"""RL-N20: DDP searches for unused parameters in every step, and finds none."""

from typing import Any

import pytest

from tests.support.events import document, op
from tests.support.rules.matching import claimed_ns, found, matched, step

SEARCH = op("torch.distributed.ddp.reducer::search_unused_parameters", 100, 40)
STEP = [step(0, 0, 1000), SEARCH, op("_DDPSink", 200, 60), op("aten::clone", 210, 40), op("_DDPSinkBackward", 500, 10)]


def facts(unused_bytes: int) -> dict[str, Any]:
    ddp = {"find_unused_parameters": True, "parameters": 16, "unused_bytes": unused_bytes}
    return {"version": 1, "facts": {"ddp": [ddp]}}


@pytest.mark.parametrize(("evidence", "said"), [(facts(0), "found no unused"), (None, "was not recorded")])
def test_n20_claims_the_search_and_the_copies_of_outputs(evidence: dict[str, Any] | None, said: str) -> None:
    data = document(STEP, redline=evidence)
    assert claimed_ns(data, "RL-N20") == 40_000 + 60_000 + 10_000
    finding = found(data)["RL-N20"]
    assert finding.evidence[0].values == {"searches": 1, "copying_ns": 70_000, "step_ns": 1_000_000}
    assert said in finding.evidence[-1].message


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(document(STEP, redline=facts(288)), id="some are unused"),
        pytest.param(document([event for event in STEP if event is not SEARCH]), id="static graph"),
    ],
)
def test_n20_is_silent_where_the_search_is_needed_or_not_made(data: bytes) -> None:
    assert "RL-N20" not in matched(data)
