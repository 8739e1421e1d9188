"""Lever `gc-every` in real processes: collections come at steps, and the collector is as it was when it is off."""

from pathlib import Path

import pytest

from tests.support.trial_jobs import PLAN, TrialRunner

SCRIPT = """
import gc, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
PREPARED
runs = []
gc.callbacks.append(lambda phase, told: runs.append(told["generation"]) if phase == "start" else None)
for step in range(40):
    runs.clear()
    model(torch.ones(2, 4)).mean().backward()
    kept = [[] for _ in range(5000)]
    CALLED
    optimizer.step()
    print(gc.isenabled(), len(runs), 2 in runs)
"""


def test_collections_come_every_so_many_steps(jobs: TrialRunner, tmp_path: Path) -> None:
    script = SCRIPT.replace("PREPARED", "").replace("CALLED", "")
    ended = jobs.run(tmp_path, script, "gc-every=3", last_step=13)
    assert (ended.exit_code, ended.notes, ended.errors) == (0, [], "")
    assert ended.levers == [(True, "collected every 3 steps")]
    assert ended.output.splitlines() == ["False 0 False", "False 0 False", "False 1 True"] * 4


def test_the_collector_is_as_it_was_while_it_is_off(jobs: TrialRunner, tmp_path: Path) -> None:
    script = SCRIPT.replace("PREPARED", "").replace("CALLED", "")
    ended = jobs.run(tmp_path, script, "gc-every=100", plan=PLAN)
    assert ended.levers == [(True, "collected every 100 steps")]
    lines = ended.output.splitlines()
    states = [line.split()[:2] for line in lines]
    for step, (is_enabled, runs) in enumerate(states, 1):
        # a step is printed when it has ended, and the next may run another way
        assert is_enabled == str(not PLAN.is_changed(step + 1)), step
        if PLAN.is_changed(step) and PLAN.is_changed(step + 1):
            assert runs == "0", step
    assert any(int(runs) for _, runs in states)


@pytest.mark.parametrize("prepared", ["gc.disable()", ""])
def test_calls_of_the_script_are_passed_over(jobs: TrialRunner, tmp_path: Path, prepared: str) -> None:
    script = SCRIPT.replace("PREPARED", prepared).replace("CALLED", "gc.collect()")
    ended = jobs.run(tmp_path, script, "gc-every=4", last_step=9)
    assert ended.exit_code == 0, ended
    assert ended.output.splitlines() == (["False 0 False"] * 3 + ["False 1 True"]) * 2
    ((took, what),) = ended.levers
    assert took
    assert what.endswith("7 of 9 calls of gc.collect passed over")
    assert what.startswith("collected every 4 steps") == (prepared == "")


@pytest.mark.parametrize(
    ("prepared", "called", "why"),
    [
        ("gc.disable()", "", "the script has switched the collector off"),
        ("gc.set_threshold(0)", "", "the script has switched the collector off"),
        ("", "gc.enable()", "the script has switched the collector on since"),
    ],
)
def test_what_changes_nothing_says_so(jobs: TrialRunner, tmp_path: Path, prepared: str, called: str, why: str) -> None:
    script = SCRIPT.replace("PREPARED", prepared).replace("CALLED", called)
    ended = jobs.run(tmp_path, script, "gc-every=4", last_step=4)
    assert ended.levers == [(False, why)]


def test_without_an_optimizer_nothing_is_switched_off(jobs: TrialRunner, tmp_path: Path) -> None:
    script = "import gc, torch\nmodel = torch.nn.Linear(4, 4)\nwith torch.no_grad():\n    for step in range(6):\n"
    script += "        model(torch.ones(2, 4))\n        print(gc.isenabled())\n"
    ended = jobs.run(tmp_path, script, "gc-every=2", last_step=4)
    assert ended.levers == [(False, "there is no optimizer, at whose steps to collect")]
    assert set(ended.output.split()) == {"True"}


def test_workers_of_a_loader_collect_as_ever(jobs: TrialRunner, tmp_path: Path) -> None:
    script = """
    import gc, torch
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, at):
            return torch.tensor([float(gc.isenabled())])

    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Rows(), num_workers=1):
        model(batch).mean().backward()
        optimizer.step()
        print(batch.item(), gc.isenabled())
    """
    ended = jobs.run(tmp_path, script, "gc-every=2", "gc-freeze", last_step=3)
    assert ended.exit_code == 0, ended
    assert set(ended.output.splitlines()) == {"1.0 False"}
    assert [took for took, _ in ended.levers] == [True, True]
