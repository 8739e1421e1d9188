"""What a replay costs, as work that is counted: traces opened, rules matched, ranks joined, scenarios replayed."""

import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import redline
from redline.findings import kept_ranks, match, replay_job
from redline.findings.kept_ranks import RankKeeper
from redline.job.read_files import JobOptions
from redline.ledger.rank import file_digests
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.digest_file import load_digest, save_digest
from redline.ledger.rank.file_digests import kept_digests
from redline.replay import forecast
from redline.report.diagnose.json import as_record
from redline.report.language import speaking
from redline.trace.reader import ReadOptions
from tests.support.traces.jobspec import Straggler
from tests.support.traces.synthetic import Faults, JobSpec, write_job

RANKS = 2
READING = JobOptions(jobs=1, use_cache=False)
ASKED = ["loader=0", "kernels/2", "host/2", "rank 1 like the others"]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With several findings, so that the first of them are replayed together as well."""
    folder = tmp_path_factory.mktemp("job")
    faults = Faults(item_reads=6, small_copies=6)
    straggler = Straggler(rank=1, extra_us=2_000, where="input")
    write_job(JobSpec(ranks=RANKS, steps=3, layers=3, faults=faults, stragglers=(straggler,)), folder)
    return folder


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each was done, and of how many scenarios."""
    counted: Counter[str] = Counter()

    def watch(module: Any, name: str, amount: Callable[..., int] = lambda *_: 1) -> None:
        original = getattr(module, name)

        def counting(*arguments: Any) -> Any:
            counted[name] += amount(*arguments)
            return original(*arguments)

        monkeypatch.setattr(module, name, counting)

    watch(file_digests, "read_cached")
    watch(kept_ranks, "matched_rules")
    watch(replay_job, "matched_rules")
    watch(match, "matched_rules")
    watch(forecast, "job_graph_of")
    watch(forecast, "plan_of")
    watch(forecast, "replayed", lambda edges, plan, delays_ns, begin_ns: delays_ns.shape[1])
    return counted


def test_everything_is_done_once(job: Path, counts: Counter[str]) -> None:
    replayed = redline.diagnose(job, options=READING, what_if=ASKED).replayed

    assert replayed is not None
    assert replayed.after_first is not None
    scenarios = [*replayed.asked, *replayed.fixes.values(), replayed.after_first]
    by_rules_alone = 1
    assert counts["replayed"] == by_rules_alone + sum(not scenario.declined for scenario in scenarios)
    assert counts["job_graph_of"] == counts["plan_of"] == 1
    assert counts["read_cached"] == counts["matched_rules"] == RANKS


def test_a_job_too_large_to_be_kept_is_opened_again_and_says_the_same(
    job: Path, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = redline.diagnose(job, options=READING, what_if=ASKED)
    counts.clear()
    monkeypatch.setattr(kept_ranks, "_MOST_SPANS", 1)
    opened = redline.diagnose(job, options=READING, what_if=ASKED)

    assert counts["read_cached"] == 2 * RANKS
    assert as_record(opened) == as_record(kept)


def test_in_other_processes_nothing_is_kept(job: Path) -> None:
    assert pickle.loads(pickle.dumps(RankKeeper())) is match.match_rules
    here = redline.diagnose(job, options=READING, what_if=ASKED)
    beside = redline.diagnose(job, options=JobOptions(jobs=2, use_cache=False), what_if=ASKED)

    assert as_record(beside) == as_record(here)


def test_digests_of_a_replay_are_those_of_a_diagnosis(tmp_path: Path) -> None:
    """So that the cache has them for both."""
    kept = [kept_digests(tmp_path, ReadOptions(), None, matcher) for matcher in (match.match_rules, RankKeeper())]

    assert kept[0] is not None
    assert kept[0] == kept[1]


def test_a_job_of_too_many_ranks_is_replayed_by_phases_and_exchanges(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = redline.diagnose(job, options=READING, what_if=ASKED)
    monkeypatch.setattr(replay_job, "MOST_RANKS", 1)
    coarse = redline.diagnose(job, options=READING, what_if=ASKED)

    assert fine.replayed is not None
    assert coarse.replayed is not None
    assert (fine.replayed.coarse, coarse.replayed.declined) == ("", "")
    assert coarse.replayed.coarse == (
        "the job has 2 ranks, and at most 1 are replayed together: give the traces of fewer, such as some of each kind"
    )
    for of_fine, of_coarse in zip(fine.replayed.asked, coarse.replayed.asked, strict=True):
        assert of_coarse.after_ns == pytest.approx(of_fine.after_ns, rel=0.1), of_fine.name
    with speaking("zh"):
        assert "该作业有 2 个 rank，最多同时重放 1 个" in coarse.rendered("text")


def test_a_graph_that_is_too_large_is_replayed_by_phases_and_exchanges(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_job, "MOST_EDGES", 1_000)
    coarse = redline.diagnose(job, options=READING, what_if="host/2")

    assert coarse.replayed is not None
    assert "edges, and at most 1,000 are replayed: give the traces of fewer ranks" in coarse.replayed.coarse
    with speaking("zh"):
        assert "最多重放 1,000 条" in coarse.rendered("text")


def test_exchanges_that_contradict_each_other_are_no_bug_of_ours(tmp_path: Path) -> None:
    """Of damaged digests, say: rank 1 took part in two of them in the other order."""
    write_job(JobSpec(ranks=2, steps=2, layers=2, collectives="all_gather_reduce_scatter"), tmp_path / "traces")
    redline.digest([tmp_path / "traces"], tmp_path / "digests", options=READING)
    _, second = sorted((tmp_path / "digests").iterdir())
    save_digest(_with_two_swapped(load_digest(second)), second, made_by="a test", force=True)
    found = redline.diagnose(tmp_path / "digests", options=READING, what_if="host/2").replayed

    assert found is not None
    assert found.declined == "exchanges of its ranks are recorded as if each had waited for the other"
    assert found.asked[0].declined == found.declined


def _with_two_swapped(digest: Digest) -> Digest:
    exchanges = digest.exchanges
    order = np.arange(len(exchanges))
    at = int(np.flatnonzero(exchanges.series[1:] != exchanges.series[:-1])[0])
    order[[at, at + 1]] = order[[at + 1, at]]
    swapped = replace(exchanges, series=exchanges.series[order], sequence=exchanges.sequence[order])
    return replace(digest, exchanges=swapped)
