"""How far a replay of digests is from the replay of their traces, and both from what comes true. Prints tables.

REDLINE_TRACES=... python -m bench.replay.score_digests traces     published traces and folders of ranks
python -m bench.replay.score_digests generator FIRST LAST          made jobs, changed and made again, as score_replay
                                                                    makes them
"""

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from bench.replay.score import (
    LEAST_WORK,
    MADE_CHANGES,
    OF_SEVERAL_RANKS,
    made,
    made_job,
    total_ns,
    traces_folder,
)
from redline.errors import RedlineError
from redline.ledger.rank.digest import digest_of
from redline.replay.changes import Scenario
from redline.replay.digest_graph import digest_replay, graph_of_digest
from redline.replay.forecast import Forecast, JobReplay, rank_replay
from redline.replay.scenario_text import parse_scenario
from redline.timeline.timeline import Timeline
from redline.trace.reader import read_file

ASKED = ("kernels/2", "kernels*1.5", "host/2", "loader=0", "collectives=0", "network*2", "start=0")


def both(timelines: Sequence[Timeline], scenarios: Sequence[Scenario]) -> Iterator[tuple[Forecast, Forecast]]:
    """Of each scenario the forecast from traces, and the one from digests."""
    digests = [digest_of(timeline, None) for timeline in timelines]
    fine = JobReplay([rank_replay(timeline, scenarios) for timeline in timelines], scenarios)
    coarse = JobReplay([digest_replay(each, graph_of_digest(each), scenarios) for each in digests], scenarios)
    return zip(fine.forecasts(), coarse.forecasts(), strict=True)


def score_traces() -> None:
    scenarios = [parse_scenario(text) for text in ASKED]
    errors: dict[str, list[float]] = {}
    for name, timelines in published():
        for fine, coarse in both(timelines, scenarios):
            if fine.declined or coarse.declined:
                continue
            error = coarse.total_ns / max(fine.total_ns, 1) - 1
            errors.setdefault(fine.scenario.name, []).append(error)
            print(f"{name[:60]:60} {fine.scenario.name:16} fine {1 - fine.gain_share:.3f}  {error:+.2%}", flush=True)
    _summary(errors)


def published() -> Iterator[tuple[str, list[Timeline]]]:
    """Each file, and each folder of files that are ranks of one job."""
    for path in sorted(traces_folder().iterdir()):
        try:
            if path.is_dir():
                timelines = [each for file in sorted(path.glob("*.json.gz")) for each in read_file(file).timelines]
            else:
                timelines = list(read_file(path).timelines) if path.name.endswith(".json.gz") else []
        except RedlineError:
            continue
        if timelines and all(len(timeline.device_work) >= LEAST_WORK for timeline in timelines):
            yield path.name, timelines


def score_generator(first: int, last: int) -> None:
    errors: dict[str, list[float]] = {}
    for seed in range(first, last):
        spec = made_job(seed)
        for text, change_of in MADE_CHANGES.items():
            if spec.ranks == 1 and text in OF_SEVERAL_RANKS:
                continue
            change = change_of(spec)
            ((fine, coarse),) = both(made(change.asked), [parse_scenario(change.scenario)])
            true_ns = total_ns(change.true)
            for name, forecast in (("traces", fine), ("digests", coarse)):
                error = forecast.total_ns / true_ns - 1
                errors.setdefault(f"{name}: {text}", []).append(error)
                errors.setdefault(f"{name}: all", []).append(error)
                print(f"{seed} {spec.ranks:2} ranks {text:28} {name:8} {error:+.3%} {forecast.declined}", flush=True)
    _summary(errors)


def _summary(errors: dict[str, list[float]]) -> None:
    for name, signed in sorted(errors.items()):
        sizes = np.abs(signed)
        within = "  ".join(f"within {limit:.0%}: {(sizes <= limit).mean():.0%}" for limit in (0.01, 0.03, 0.1))
        print(f"{name:28} {len(sizes):3}  median {np.median(sizes):.2%}  worst {sizes.max():.1%}  {within}")


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["traces"]:
            score_traces()
        case ["generator", first, last]:
            score_generator(int(first), int(last))
        case _:
            print(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
