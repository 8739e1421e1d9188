"""Real runs on the CPU with delays put into them: each turns up in its own account and finding, and nowhere else."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from redline.findings.finding import Finding
from redline.job.read_files import JobOptions
from redline.ledger.accounts import Account, place
from redline.ledger.job.combine import Diagnosis
from redline.verbs.diagnose import diagnose

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

PROGRAM = Path(__file__).parent / "programs" / "small_gpt.py"
ATTEMPTS = 4
DELAY_MS = 800.0  # long against a step of some 20 ms
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
WORDS = {"host": "its device waits", "compute": "it computes", "input": "its data loader"}
QUIET = {"KINETO_LOG_LEVEL": "6", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}


@dataclass(frozen=True)
class Run:
    """What Redline says of a run, and what was really injected into each rank, per step."""

    diagnosis: Diagnosis
    findings: dict[str, Finding]  # by code
    injected_ns: list[list[int]]

    def total_ns(self, rank: int, account: Account) -> int:
        return int(self.diagnosis.ranks[rank].ledger.steps[:, place(account)].sum())

    def check_delay_is_in(self, account: Account, rank: int, injected_ns: int, most_short: float = 0.05) -> None:
        """It is all in this account of the rank; on a busy machine the rest of the step is there as well, or not."""
        rest_ns = int(self.diagnosis.ranks[rank].ledger.steps.sum()) - injected_ns
        found_ns = self.total_ns(rank, account)
        assert (1 - most_short) * injected_ns <= found_ns <= injected_ns + max(rest_ns, most_short * injected_ns)

    def finding(self, code: str) -> Finding:
        assert code in self.findings
        return self.findings[code]


def run(folder: Path, *options: str, ranks: int = 1) -> Run:
    folder.mkdir()
    launcher = TORCHRUN if ranks == 2 else [sys.executable]
    command = [*launcher, str(PROGRAM), "--folder", str(folder), *options]
    finished = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False, env={**os.environ, **QUIET}
    )
    assert finished.returncode == 0, finished.stderr
    result = diagnose([folder / f"rank-{rank}.json" for rank in range(ranks)], options=JobOptions(use_cache=False))
    injected = [json.loads((folder / f"injected-{rank}.json").read_text()) for rank in range(ranks)]
    assert [rank.origin.rank for rank in result.diagnosis.ranks] == list(range(ranks))
    return Run(result.diagnosis, {one.code: one for one in result.findings.findings}, injected)


def said(finding: Finding) -> dict[str, Any]:
    """The values of all its evidence."""
    return {name: value for one in finding.evidence for name, value in one.values.items()}


def measured_well(check: Callable[[int], None]) -> None:
    """The check of a run, repeated where it fails: other load on the machine delays a run here and there."""
    for attempt in range(ATTEMPTS):
        try:
            check(attempt)
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return


def test_an_undisturbed_run_computes_and_waits_for_no_input(tmp_path: Path) -> None:
    def check(attempt: int) -> None:
        plain = run(tmp_path / str(attempt))
        amounts = plain.diagnosis.per_step
        step_ns = sum(amounts.values())
        assert amounts[Account.UNRATED] > 0.4 * step_ns  # no machine is known, so no work is rated
        assert amounts[Account.INPUT] < 0.05 * step_ns
        assert amounts[Account.OTHER] == 0
        assert len(plain.diagnosis.ranks[0].ledger.start_ns) == 4

    measured_well(check)


@pytest.mark.parametrize(
    ("where", "account"),
    [("loader", Account.INPUT), ("host", Account.HOST), ("compute", Account.UNRATED)],
)
def test_a_delay_is_in_its_own_account(tmp_path: Path, where: str, account: Account) -> None:
    def check(attempt: int) -> None:
        delayed = run(tmp_path / str(attempt), "--where", where, "--delay-ms", str(DELAY_MS))
        delayed.check_delay_is_in(account, 0, sum(delayed.injected_ns[0]))
        assert ("RL-D01" in delayed.findings) == (where == "loader")
        assert "RL-N13" not in delayed.findings

    measured_well(check)


@pytest.mark.parametrize(
    ("where", "account", "cause"),
    [
        pytest.param("host", Account.HOST, "host", marks=pytest.mark.slow),
        pytest.param("compute", Account.UNRATED, "compute", marks=pytest.mark.slow),
        pytest.param("loader", Account.INPUT, "input", marks=pytest.mark.slow),  # test_run_straggler.py has one, too
    ],
)
def test_a_slow_rank_makes_its_peer_wait(tmp_path: Path, where: str, account: Account, cause: str) -> None:
    """Data parallel on two gloo ranks: the delay is in rank 1's own account, and in rank 0's peer wait."""

    def check(attempt: int) -> None:
        options = ("--where", where, "--delay-ms", str(DELAY_MS), "--slow-rank", "1")
        delayed = run(tmp_path / str(attempt), *options, ranks=2)
        injected_ns = sum(delayed.injected_ns[1])
        delayed.check_delay_is_in(account, 1, injected_ns)
        delayed.check_delay_is_in(Account.PEER_WAIT, 0, injected_ns, most_short=0.2)  # less where rank 0 is late itself
        lateness = delayed.diagnosis.lateness
        assert lateness is not None
        late = lateness.ranks[0]
        assert (late.rank, late.cause, lateness.pattern) == (1, cause, "fixed")
        assert late.share > 0.8
        assert late.cause_ns == pytest.approx(injected_ns / 4, rel=0.2)
        finding = delayed.finding("RL-N13")
        assert said(finding)["rank"] == "1"
        assert any(WORDS[cause] in one.message for one in finding.evidence)
        assert {place.rank for place in finding.places} == {0}  # rank 1 does not wait for itself
        assert finding.alone_ns == pytest.approx(injected_ns / 4, rel=0.2)  # what each rank gains, not their average
        assert ("RL-D01" in delayed.findings) == (where == "loader")
        assert not {"RL-N02", "RL-N06", "RL-N07"} & set(delayed.findings)  # one pass, and nothing is gathered

    measured_well(check)


def test_the_bubble_of_a_pipeline_is_peer_wait(tmp_path: Path) -> None:
    """Two stages; the first is late, so the second waits for its activations, and they are not compared."""

    def check(attempt: int) -> None:
        options = ("--pipeline", "--where", "host", "--delay-ms", str(DELAY_MS), "--slow-rank", "0")
        delayed = run(tmp_path / str(attempt), *options, ranks=2)
        injected_ns = sum(delayed.injected_ns[0])
        delayed.check_delay_is_in(Account.PEER_WAIT, 1, injected_ns, most_short=0.2)
        assert len(set(delayed.diagnosis.kinds)) == 2
        bubble = said(delayed.finding("RL-P01"))
        assert (bubble["stages"], bubble["micro_batches"]) == (2, 4)
        assert "RL-N13" not in delayed.findings

    measured_well(check)


def test_parameters_that_are_gathered_in_both_passes_are_found(tmp_path: Path) -> None:
    """Data parallel with sharded parameters; on the CPU nothing hides that they are gathered.

    On a busy machine the host's share of a step hides one or the other: each has to be seen once.
    """
    missing = {"RL-N06", "RL-N07"}
    for attempt in range(ATTEMPTS):
        sharded = run(tmp_path / str(attempt), "--sharded", ranks=2)
        for code in missing & set(sharded.findings):
            assert said(sharded.finding(code))["gathers"] >= 2
        assert "RL-N01" not in sharded.findings
        missing -= set(sharded.findings)
        if not missing:
            return
    assert not missing


@pytest.mark.slow
def test_gradients_that_are_exchanged_in_every_pass_are_found(tmp_path: Path) -> None:
    """Data parallel with four passes before the optimizer, without `no_sync`."""

    def check(attempt: int) -> None:
        finding = run(tmp_path / str(attempt), "--passes", "4", ranks=2).finding("RL-N02")
        assert (said(finding)["passes"], said(finding)["early_share"]) == (4, 0.75)

    measured_well(check)
