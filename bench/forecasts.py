"""Forecasts against what mending a case really gains: python -m bench.forecasts [--set-aside] [--recorded FOLDER]

The generator makes a flawed GPU timeline and its healthy twin, so what the fix gains is known. With --recorded it is
the jobs that `python -m bench --out FOLDER` has recorded, whose twins it timed without Redline. The finding that names
the cause has a bound and a forecast. Every third case in alphabetical order is set aside: nothing is fitted to those,
and they are scored once, with --set-aside.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import redline
from bench.cases import HERE, SET_ASIDE, Case, CaseKind, cases_in, specs_of
from bench.gain import Gain, simulated_gain
from bench.results import stored
from bench.scoring import causes_of, score_of
from bench.tables import as_text
from redline.job.read_files import JobOptions
from redline.report.diagnose.json import as_record
from tests.support.traces.synthetic import write_job

HEADS = ("case", "finding", "bound", "forecast", "realised", "error of the step", "miss")
_WRONG = 0.1  # of the step: a forecast further off is a miss


@dataclass(frozen=True, kw_only=True)
class Forecasted:
    """One case. Gains are shares of the flawed step."""

    case: Case
    code: str  # of the finding that names the cause; "" where none does
    bound: float
    forecast: float | None
    gain: float
    declined: str

    @property
    def error(self) -> float | None:
        """Of the step after the fix, as a share of it."""
        return None if self.forecast is None else (self.gain - self.forecast) / (1 - self.gain)

    @property
    def miss(self) -> str:
        if not self.code:
            return "no finding names the cause"
        if self.error is None:
            return f"no forecast: {self.declined}"
        said = [f"{self.error:+.1%} off"] if abs(self.error) > _WRONG else []
        said += ["above the bound"] if self.gain > self.bound + 0.001 else []
        said += [] if self.is_nearer else ["the bound is nearer"]
        return ", ".join(said)

    @property
    def is_nearer(self) -> bool:
        """Whether the forecast is at least as near as the bound."""
        return self.forecast is not None and abs(self.forecast - self.gain) <= abs(self.bound - self.gain) + 0.001


def cases_of(kind: CaseKind) -> list[Case]:
    """All GPU timelines, or jobs, in alphabetical order."""
    cases = [case for folder in (HERE, *SET_ASIDE) for case in cases_in(folder) if case.kind == kind]
    return sorted(cases, key=lambda case: case.title)


def chosen(cases: Sequence[Case], *, set_aside: bool) -> list[Case]:
    """Every third is set aside."""
    return [case for place, case in enumerate(cases) if (place % 3 == 2) is set_aside]


def forecasted(case: Case) -> Forecasted:
    records: dict[str, dict[str, Any]] = {}
    truths = []
    with TemporaryDirectory() as folder:
        for twin in ("flawed", "healthy"):
            traces = Path(folder) / twin
            truths.append(write_job(specs_of(case)(twin == "flawed"), traces))
            records[twin] = _diagnosed(traces, forecast=twin == "flawed")
            shutil.rmtree(traces)
    return _compared(case, records["flawed"], records["healthy"], simulated_gain(*truths))


def recorded(case: Case, out: Path) -> Forecasted | None:
    """Of a job that ran and was timed; None of others."""
    folder = out / case.group
    result = stored(folder, case.name)
    if result is None or result.gain is None:
        return None
    flawed = _diagnosed(folder / case.name / "flawed" / "run", forecast=True)
    return _compared(case, flawed, result.twins["healthy"], Gain(**result.gain))


def _diagnosed(traces: Path, *, forecast: bool) -> dict[str, Any]:
    return as_record(redline.diagnose(traces, options=JobOptions(jobs=1, use_cache=False), forecast=forecast))


def _compared(case: Case, flawed: dict[str, Any], healthy: dict[str, Any], gain: Gain) -> Forecasted:
    score = score_of(case.label, flawed, healthy, gain.to_json(), causes_of(HERE, case.folder))
    finding = next((found for found in flawed["findings"] if found["code"] == score.code), None)
    forecast = None if finding is None else finding["forecast"]
    return Forecasted(
        case=case,
        code=score.code,
        bound=0.0 if finding is None else finding["alone_share"],
        forecast=_share(finding, forecast),
        gain=gain.wall,
        declined="" if forecast is None else forecast["declined"],
    )


def _share(finding: dict[str, Any] | None, forecast: dict[str, Any] | None) -> float | None:
    if finding is None or forecast is None or forecast["declined"]:
        return None
    return float(forecast["gain_ns"] / finding["step_ns"])


def row_of(scored: Forecasted) -> tuple[str, ...]:
    return (
        scored.case.title,
        scored.code or "-",
        f"{scored.bound:.1%}",
        "-" if scored.forecast is None else f"{scored.forecast:.1%}",
        f"{scored.gain:.1%}",
        "-" if scored.error is None else f"{scored.error:+.1%}",
        scored.miss,
    )


def summary(rows: Sequence[Forecasted]) -> list[str]:
    errors = np.abs([row.error for row in rows if row.error is not None])
    known = [row for row in rows if row.error is not None]
    if not known:
        return ["no forecast"]
    return [
        f"{len(rows)} cases, {len(known)} with a forecast",
        f"error of the step: median {np.median(errors):.1%}, p90 {np.quantile(errors, 0.9):.1%}, "
        f"within 10 %: {np.mean(errors <= _WRONG):.0%}",
        f"realised at most the bound: {np.mean([row.gain <= row.bound + 0.001 for row in known]):.0%}",
        f"forecast at least as near as the bound: {np.mean([row.is_nearer for row in known]):.0%}",
    ]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.forecasts", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names (default: all)")
    parser.add_argument("--set-aside", action="store_true", help="the cases that nothing was fitted to")
    parser.add_argument("--recorded", type=Path, metavar="FOLDER", help="of `python -m bench --out`: its jobs instead")
    options = parser.parse_args(words)
    cases = chosen(cases_of("job" if options.recorded else "timeline"), set_aside=options.set_aside)
    cases = [case for case in cases if not options.names or any(name in case.title for name in options.names)]
    rows = []
    for case in cases:
        scored = recorded(case, options.recorded) if options.recorded else forecasted(case)
        if scored is None:
            continue
        rows.append(scored)
        print("  ".join(row_of(rows[-1])), file=sys.stderr, flush=True)
    print(as_text(HEADS, [row_of(row) for row in rows]))
    print("\n" + "\n".join(summary(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
