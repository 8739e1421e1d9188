"""Places in real processes: the calls of the user's own files are told, and the job is what it was."""

from pathlib import Path
from textwrap import dedent

from redline.capture.places import Place, places_in
from tests.support.trial_jobs import TrialEnd, TrialRunner, run_trial

JOB = dedent(
    """
    import gc, helper, torch
    from functools import partial
    from torch.nn.utils import clip_grad_norm_
    torch.manual_seed(0)

    class Own(torch.optim.AdamW):
        def __init__(self, params):
            super().__init__(params, lr=0.1)

    def build():
        return torch.nn.Sequential(torch.nn.Linear(8, 8), helper.Block(), helper.Block())

    model = build()
    teacher, student = helper.Block(), helper.Block()
    data = torch.utils.data.TensorDataset(torch.randn(64, 8))
    loader = torch.utils.data.DataLoader(
        data,
        batch_size=4,
    )
    loaders = list(map(torch.utils.data.DataLoader, [data]))
    optimizers = [Own(model.parameters()), partial(torch.optim.SGD, lr=0.1)(model.parameters())]
    plain = torch.nn.Module.__init__, torch.optim.Optimizer.zero_grad, torch.nn.utils.clip_grad_norm_, len(gc.callbacks)
    for step, (x,) in enumerate(loader):
        loss = helper.step(model, x)
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(step < 1)
        gc.collect()
        print(loss.item().hex())
    now = torch.nn.Module.__init__, torch.optim.Optimizer.zero_grad, torch.nn.utils.clip_grad_norm_, len(gc.callbacks)
    print([before is after for before, after in zip(plain, now)], now[3] - plain[3], model._compiled_call_impl)
    """
)
HELPER = dedent(
    """
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.inner(x)

    def step(model, x):
        return model(x).mean()
    """
)


def _run(jobs: TrialRunner, folder: Path, *, places: bool) -> TrialEnd:
    (folder / "helper.py").write_text(HELPER)
    ended = jobs.run(folder, "import sys\nsys.path.insert(0, '.')\n" + JOB, places=places)
    assert ended.exit_code == 0, ended.errors
    assert ended.notes == []
    assert ended.errors == ""
    return ended


def _text(place: Place) -> str:
    """The call, in one line."""
    lines = Path(place.file).read_text().splitlines()[place.line - 1 : place.end_line]
    lines[-1] = lines[-1][: place.end_column]
    return " ".join(part.strip() for part in [lines[0][place.column :], *lines[1:]])


def test_calls_of_the_users_files_are_told(jobs: TrialRunner, tmp_path: Path) -> None:
    places = places_in(_run(jobs, tmp_path, places=True).facts[0])
    told = {(place.kind, place.callee, _text(place) if place.end_column else "", place.why_not) for place in places}
    unknown = "the text does not show what is called there"
    block = "torch.nn.Sequential(torch.nn.Linear(8, 8), helper.Block(), helper.Block())"
    assert told == {
        ("script", "", "", ""),
        ("model", "Sequential", "build()", ""),
        ("loader", "DataLoader", "torch.utils.data.DataLoader( data, batch_size=4, )", ""),
        ("loader", "DataLoader", "list(map(torch.utils.data.DataLoader, [data]))", unknown),
        ("optimizer", "Own", "super().__init__(params, lr=0.1)", ""),
        ("optimizer", "SGD", "partial(torch.optim.SGD, lr=0.1)(model.parameters())", unknown),
        ("root call", "Sequential", "model(x)", ""),
        ("zero_grad", "zero_grad", "optimizer.zero_grad(step < 1)", ""),
        ("clip_grad_norm_", "clip_grad_norm_", "clip_grad_norm_(model.parameters(), 1.0)", ""),
        ("gc.collect", "collect", "gc.collect()", ""),
    }
    assert block not in {text for _, _, text, _ in told}  # the name comes with the statement that calls `build`
    by_kind = {place.kind: place for place in places}
    assert by_kind["model"].details["target"] == "model"
    assert by_kind["model"].details["blocks"] == [{"list": "", "items": ["[1]", "[2]"]}]
    assert by_kind["root call"].file == str(tmp_path / "helper.py")
    assert [caller["function"] for caller in by_kind["root call"].details["callers"]][:2] == ["step", "<module>"]
    assert {place.details["is_to_none"] for place in places if place.kind == "zero_grad"} == {True, False}


def test_the_job_is_what_it_was(jobs: TrialRunner, tmp_path: Path) -> None:
    without = _run(jobs, tmp_path, places=False)
    assert "places" not in without.facts[0]
    with_places = _run(jobs, tmp_path, places=True)
    *losses, hooks = with_places.output.splitlines()
    assert losses == without.output.splitlines()[:-1]
    assert without.output.splitlines()[-1] == "[True, True, True, True] 0 None"
    assert hooks == "[False, False, False, False] -1 None"  # ours were there, and are gone


def test_more_places_than_can_be_told_are_said_to_be_more(jobs: TrialRunner, tmp_path: Path) -> None:
    lines = "\n".join("torch.utils.data.DataLoader([1, 2])" for _ in range(200))
    loop = "optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters())\nfor _ in range(4):\n    optimizer.step()"
    ended = jobs.run(tmp_path, f"import torch\n{lines}\n{loop}", places=True)
    places = places_in(ended.facts[0])
    assert {place.why_not for place in places if place.kind == "loader"} == {
        "",
        "it is made or called at more places than could be told",
    }
    assert any(place.kind == "script" for place in places)


def test_the_statement_that_names_the_model(jobs: TrialRunner, tmp_path: Path) -> None:
    start = """
        import torch, torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as DDP
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        def build():
            return torch.nn.Linear(8, 1)
    """
    end = """
        optimizer = torch.optim.SGD(model.parameters())
        for _ in range(4):
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
        import os
        os._exit(0)
    """
    told = {}
    for made in (
        "model = build()",
        "model = DDP(build())",
        "model = build()\nmodel = DDP(model)",
        "model = build().to('cpu').train()",
        "first, model = 1, torch.nn.Linear(8, 1)",
        "models = [build(), build()]\nmodel = models[1]",
    ):
        ended = jobs.run(tmp_path, dedent(start) + made + dedent(end), places=True)
        (place,) = (place for place in places_in(ended.facts[0]) if place.kind == "model")
        told[made] = place.details["target"], _text(place), place.why_not
    assert list(told.values()) == [
        ("model", "build()", ""),
        ("model.module", "build()", ""),
        ("model", "build()", ""),
        ("model", "build()", ""),
        ("", "torch.nn.Linear(8, 1)", "no statement there gives the model a name"),
        ("", "torch.nn.Linear(8, 1)", "2 of Linear are made there"),
    ]


def test_no_tensor_of_a_step_is_kept_alive(jobs: TrialRunner, tmp_path: Path) -> None:
    script = """
        import gc, torch, weakref
        def main():
            model = torch.nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters())
            outputs = []
            for step in range(6):
                output = model(torch.randn(4, 8))
                outputs.append(weakref.ref(output))
                output.sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                gc.collect()
            print([known() is not None for known in outputs])
        main()
    """
    ended = jobs.run(tmp_path, script, places=True)
    assert {place.kind for place in places_in(ended.facts[0])} >= {"optimizer", "root call", "gc.collect"}
    assert ended.output == f"{[False] * 5 + [True]}\n"


def test_a_script_that_ends_before_its_first_step_says_what_it_would(tmp_path: Path) -> None:
    ended = run_trial(tmp_path, "import torch\nloops = [torch.nn.Linear(1, 1)]\nloops.append(loops)", places=True)
    assert (ended.exit_code, ended.output, ended.errors, ended.notes) == (0, "", "", [])
