"""The result of a case, as one JSON file in the output folder: what was found, and what was gained."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.capture import TWINS, CannotRunError, Record, Twin, diagnosed_job, diagnosed_timeline, diagnosis_of
from bench.cases import Case
from bench.gain import measured_gain, simulated_gain
from tests.support.traces.synthetic import Truth

_KEPT = ("code", "title", "share", "alone_share", "steady_share", "evidence")


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of both twins of a case; `trouble` says why there is nothing."""

    name: str
    trouble: str
    twins: dict[Twin, Record]  # verdict and findings
    gain: Record | None


def run(case: Case, out: Path, repeats: int, beside: int = 0) -> Result:
    """Capture and diagnose both twins, of a job beside so many others, and measure the gain; the result is stored."""
    folder = out / case.name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        twins, gain = _timelines(case, folder) if case.kind == "timeline" else _jobs(case, folder, repeats, beside)
        result = Result(name=case.name, trouble="", twins=twins, gain=gain)
    except CannotRunError as error:
        result = Result(name=case.name, trouble=str(error).replace(str(out), "FOLDER"), twins={}, gain=None)
    return _store(case, out, result)


def rediagnosed(case: Case, recorded: Path, out: Path) -> Result:
    """Diagnose what another folder has recorded of both twins again, with the gain that was measured there."""
    (out / case.name).mkdir(parents=True, exist_ok=True)
    before = stored(recorded, case.name)
    if before is None or before.trouble:
        trouble = f"nothing was recorded in {recorded}" if before is None else before.trouble
        return _store(case, out, Result(name=case.name, trouble=trouble, twins={}, gain=None))
    files = "traces" if case.kind == "timeline" else "run"
    twins = {
        twin: _summary(diagnosis_of(recorded / case.name / twin / files, out / case.name / f"{twin}.json"))
        for twin in TWINS
    }
    return _store(case, out, Result(name=case.name, trouble="", twins=twins, gain=before.gain))


def _store(case: Case, out: Path, result: Result) -> Result:
    part = out / f"{case.name}.json.part"
    part.write_text(json.dumps({**asdict(result), "label": asdict(case.label)}, indent=1), encoding="utf-8")
    part.replace(_path(out, case.name))
    return result


def stored(out: Path, name: str) -> Result | None:
    """The result of a case that was run before."""
    path = _path(out, name)
    if not path.exists():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    return Result(name=name, trouble=record["trouble"], twins=record["twins"], gain=record["gain"])


def _path(out: Path, name: str) -> Path:
    return out / f"{name}.json"


def _timelines(case: Case, folder: Path) -> tuple[dict[Twin, Record], Record]:
    twins: dict[Twin, Record] = {}
    truths: dict[Twin, Truth] = {}
    for twin in TWINS:
        record, truths[twin] = diagnosed_timeline(case, twin, folder / twin)
        twins[twin] = _summary(record)
    return twins, simulated_gain(truths["flawed"], truths["healthy"]).to_json()


def _jobs(case: Case, folder: Path, repeats: int, beside: int) -> tuple[dict[Twin, Record], Record | None]:
    twins = {twin: _summary(diagnosed_job(case, twin, folder / twin, beside)) for twin in TWINS}
    return twins, measured_gain(case, folder, repeats).to_json() if repeats else None


def _summary(record: dict[str, Any]) -> Record:
    return {
        "verdict": record["verdict"]["text"],
        "findings": [{key: finding.get(key) for key in _KEPT} for finding in record["findings"]],
        "remarks": [remark["code"] for remark in record["remarks"]],
        "waterfall": {bar["account"]: bar["share"] for bar in record["waterfall"]},
    }
