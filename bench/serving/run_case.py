"""Runs one side of a case: a watched server under load, and what `redline diagnose` says of it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.serving.serving_cases import ServingCase
from bench.serving.vllm_server import make_model, measure, server
from redline.serving.diagnose_serving import ServingDiagnosis, diagnose_serving
from redline.serving.request_ledger import SLOWEST


@dataclass(frozen=True, kw_only=True)
class SideResult:
    """Causes with their shares of the slowest requests, and how slow these are, by latency."""

    causes: tuple[tuple[str, float], ...]
    slowest_ms: dict[str, float]
    latencies: dict[str, str]  # that each cause is told of
    most: dict[str, float]  # of that latency, that mending it takes off
    requests: int
    trouble: str = ""


def run_case(case: ServingCase, out: Path, models: Path) -> dict[str, SideResult]:
    """Both sides; what is in the folder already is not run again."""
    return {name: _run_side(case, name, out / case.name, models) for name in case.sides}


def _run_side(case: ServingCase, name: str, folder: Path, models: Path) -> SideResult:
    kept = folder / f"{name}.json"
    if kept.exists():
        told = json.loads(kept.read_text(encoding="utf-8"))
        return SideResult(**{**told, "causes": tuple((code, share) for code, share in told["causes"])})
    folder.mkdir(parents=True, exist_ok=True)
    try:
        result = result_of(_served(case, name, folder, models))
    except (OSError, RuntimeError, ValueError) as error:
        result = SideResult(causes=(), slowest_ms={}, latencies={}, most={}, requests=0, trouble=str(error)[-400:])
    kept.write_text(json.dumps(asdict(result)), encoding="utf-8")
    return result


def _served(case: ServingCase, name: str, folder: Path, models: Path) -> ServingDiagnosis:
    side, run = case.sides[name], folder / f"{name}-run"
    model = make_model(models / case.model, case.model)
    with server(model, run, *side.server, environment=side.environment) as running:
        measure(running.address, model, folder / f"{name}-client.json", *side.client)
    found = diagnose_serving(run)
    if found is None:
        raise RuntimeError("the run has no log of an engine")
    return found


def result_of(found: ServingDiagnosis) -> SideResult:
    return SideResult(
        causes=tuple((cause.code, round(cause.end_to_end_share, 4)) for cause in found.causes),
        slowest_ms={str(one.latency): one.value_ns / 1e6 for one in found.splits if one.percentile == SLOWEST},
        latencies={cause.code: str(cause.latency) for cause in found.causes},
        most={cause.code: cause.most for cause in found.causes},
        requests=found.requests,
    )
