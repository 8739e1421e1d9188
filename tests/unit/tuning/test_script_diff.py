"""Levers that have no place say why, with the lines to paste, and leave the places of others alone."""

import ast
import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from redline.capture.lever_kinds import KINDS, LeverKind
from redline.capture.levers import Lever, parse_lever
from redline.capture.places import LOADER, MODEL, OPTIMIZER, ROOT_CALL, SCRIPT, ZERO_GRAD, Place, places_in
from redline.numerics import Numerics
from redline.tuning.script_diff import ScriptDiff, script_diff, unified_diff
from tests.support.patching import apply_patch

SCRIPT_TEXT = """\
import torch
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=BATCH)
model = Net()
optimizer = torch.optim.SGD(model.parameters())
while True:
    for x in loader:
        y = model(x)
        optimizer.zero_grad(set_to_none=False)
"""
OWN_MODEL = {"is_of_torch": False, "blocks_are_of_torch": False}
_KINDS_OF_PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "DataLoader": (LOADER, {"is_iterable": False, "workers": 0, "has_batch_sampler": False}),
    "Net": (MODEL, {"target": "model", "blocks": [], "is_sharded": False, **OWN_MODEL}),
    "torch.optim.SGD": (OPTIMIZER, {"is_on": [], "flags": ["fused", "foreach"]}),
    "model": (ROOT_CALL, {"device": "cpu", "output": "torch.float32", "is_cast": False}),
    "optimizer.zero_grad": (ZERO_GRAD, {"is_to_none": False}),
}


def _place(path: Path, kind: str, call: ast.Call | None, **details: Any) -> Place:
    return Place(
        kind=kind,
        file=str(path),
        digest=sha256(path.read_bytes()).hexdigest()[:16],
        end_line=(call and call.end_lineno) or 1,
        end_column=(call and call.end_col_offset) or 0,
        details=details,
    )


def _places(path: Path, text: str = SCRIPT_TEXT) -> list[Place]:
    """As a job would have told them."""
    path.write_text(text)
    places = [_place(path, SCRIPT, None)]
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        kind, details = _KINDS_OF_PLACES.get(ast.unparse(call.func), ("", {}))
        if kind:
            given = [keyword.arg for keyword in call.keywords if keyword.arg]
            callers = [_place(path, "caller", call).told()]
            places.append(_place(path, kind, call, given=given, order=(), callers=callers, **details))
    return places


def _diff(folder: Path, places: list[Place], *levers: str) -> ScriptDiff:
    return script_diff([parse_lever(lever) for lever in levers], places, folder)


def _why(diff: ScriptDiff) -> str:
    assert diff.placed == ()
    assert diff.patch == ""
    (lever,) = diff.unplaced
    assert lever.lines
    return lever.why


def test_all_that_can_be_placed(tmp_path: Path) -> None:
    places = _places(tmp_path / "job.py")
    levers = (
        "threads=4",
        "fused",
        "workers=2",
        "compile=root",
        "autocast",
        "gc-freeze",
        "zero-grad-none",
        "pin-memory",
    )
    diff = _diff(tmp_path, places, *levers)
    assert diff.unplaced == ()
    apply_patch(tmp_path, diff.patch)
    assert (
        (tmp_path / "job.py").read_text()
        == """\
import torch
from torch.utils.data import DataLoader
import gc

torch.set_num_threads(4)
loader = DataLoader(data, batch_size=BATCH, num_workers=2, persistent_workers=True, pin_memory=True)
model = Net()
model.compile()
optimizer = torch.optim.SGD(model.parameters(), fused=True)
gc.collect()
gc.freeze()
while True:
    for x in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
        y = y.float()
        optimizer.zero_grad()
"""
    )


def test_places_go_through_json(tmp_path: Path) -> None:
    places = _places(tmp_path / "job.py")
    assert places_in({"places": [place.told() for place in places]}) == tuple(places)
    assert places_in({}) == ()


def test_a_lever_is_made_at_all_places_or_at_none(tmp_path: Path) -> None:
    places = _places(tmp_path / "job.py")
    other = Place(kind=OPTIMIZER, file="/lib/x.py", why_not="not yours", details=places[3].details)
    diff = _diff(tmp_path, [*places, other], "fused", "workers=2")
    assert diff.placed == ("workers=2",)
    assert diff.unplaced[0].why == "line 1 of /lib/x.py: not yours"
    assert "fused=True" in diff.unplaced[0].lines


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.write_text(SCRIPT_TEXT + "# more\n"), "job.py has changed since the job ran"),
        (lambda path: path.write_text("def"), "job.py cannot be parsed"),
        (lambda path: path.write_bytes(b"# -*- coding: latin-1 -*-\n"), "job.py is not in UTF-8"),
        (lambda path: path.unlink(), "No such file"),
    ],
)
def test_files_that_are_not_what_they_were(tmp_path: Path, change: Any, why: str) -> None:
    places = _places(tmp_path / "job.py")
    change(tmp_path / "job.py")
    assert why in _why(_diff(tmp_path, places, "fused"))


def test_files_outside_of_the_folder_are_not_touched(tmp_path: Path) -> None:
    places = _places(tmp_path / "job.py")
    (tmp_path / "inner").mkdir()
    assert "job.py is outside" in _why(_diff(tmp_path / "inner", places, "fused"))


@pytest.mark.parametrize(
    ("before", "after", "lever", "why"),
    [
        ("y = model(x)", "y = model(x) + 1", "autocast", "does more than to call the model"),
        ("y = model(x)", "y = z = model(x)", "autocast", "does not give what the model returns one name"),
        ("y = model(x)", "y = model(x); z = 1", "autocast", "has several statements"),
        ("y = model(x)", 'y = model("""\n""")', "autocast", "a text of several lines"),
        ("model = Net()", "z = 1; model = Net()", "compile", "has several statements"),
        ("model = Net()", "torch.set_num_threads(1)\nmodel = Net()", "threads=4", "sets it: change that line"),
        (
            "while True:\n    for x in loader:\n    ",
            "if True:\n    if x:\n    ",
            "gc-freeze",
            "no loop around the call",
        ),
        ("import torch\nfrom torch.utils.data import DataLoader\n", "", "threads=4", "imports nothing at its top"),
    ],
)
def test_statements_in_which_there_is_no_place(tmp_path: Path, before: str, after: str, lever: str, why: str) -> None:
    assert before in SCRIPT_TEXT
    places = _places(tmp_path / "job.py", SCRIPT_TEXT.replace(before, after))
    assert why in _why(_diff(tmp_path, places, lever))


@pytest.mark.parametrize(
    ("lever", "why", "lines"),
    [
        ("bucket-view", "no DistributedDataParallel was seen", "gradient_as_bucket_view=True"),
        ("checkpoint", "repeats no blocks", "checkpoint(block, hidden"),
        ("prefetch=4", "it has nothing to change", "prefetch_factor=4"),
        ("channels-last", "inputs must be converted", "channels_last"),
        ("switch=new", "its own affair", 'redline.switch("new")'),
        ("env:A=b c", "put it before the command", "A='b c'"),
        ("malloc-arenas=2", "put it before the command", "MALLOC_ARENA_MAX=2"),
        ("huge-pages", "put it before the command", "THP_MEM_ALLOC_ENABLE=1"),
        ("omp-wait=passive", "put it before the command", "OMP_WAIT_POLICY=passive"),
    ],
)
def test_levers_without_a_place(tmp_path: Path, lever: str, why: str, lines: str) -> None:
    diff = _diff(tmp_path, _places(tmp_path / "job.py"), lever)
    assert why in _why(diff)
    assert lines in diff.unplaced[0].lines


def test_no_lever_is_forgotten(tmp_path: Path) -> None:
    values = {"N": "2", "NAME": "new"}
    for kind in (kind for kind in KINDS.values() if not kind.environment):
        lever = Lever(kind, kind.default or values.get(kind.values, ""))
        diff = script_diff([lever], _places(tmp_path / "job.py"), tmp_path)
        assert [known.why for known in diff.unplaced] != ["it is not written into files"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("batch_size=BATCH", "batch_size=BATCH * 4"),
        ("batch_size=8", "batch_size=32"),
        ("batch_size=a or b", "batch_size=(a or b) * 4"),
        ("shuffle=True", "shuffle=True, batch_size=4"),
    ],
)
def test_larger_batches(tmp_path: Path, before: str, after: str) -> None:
    places = _places(tmp_path / "job.py", SCRIPT_TEXT.replace("batch_size=BATCH", before))
    kind = LeverKind(name="batch-times", summary="", numerics=Numerics.SEMANTICS, switchable=False, values="N")
    diff = script_diff([Lever(kind, "4")], places, tmp_path)
    assert diff.placed == ("batch-times=4",)
    assert f"+loader = DataLoader(data, {after})\n" in diff.patch


def test_blocks_of_several_lists_are_compiled(tmp_path: Path) -> None:
    places = _places(tmp_path / "job.py", SCRIPT_TEXT.replace("model = Net()", "block = 1\nmodel = Net()"))
    blocks = [{"list": ".layers", "items": []}, {"list": "[1]", "items": ["[1][0]", "[1][2]"]}]
    details = {"target": "model", "blocks": blocks, "is_sharded": False, **OWN_MODEL}
    places = [replace(place, details=details) if place.kind == MODEL else place for place in places]
    patch = _diff(tmp_path, places, "compile").patch
    assert "+for model_block in (*model.layers, model[1][0], model[1][2]):\n+    model_block.compile()\n" in patch


def test_blocks_of_torch_itself_are_compiled_by_their_forward(tmp_path: Path) -> None:
    places = _places(tmp_path / "job.py")
    details = {"target": "model", "blocks": [{"list": ".layers", "items": []}], "is_sharded": False}
    of_torch = {**details, "is_of_torch": False, "blocks_are_of_torch": True}
    places = [replace(place, details=of_torch) if place.kind == MODEL else place for place in places]
    patch = _diff(tmp_path, places, "compile").patch
    assert "+for block in model.layers:\n+    block.forward = torch.compile(block.forward)\n" in patch


# Patches that real git applies: whatever the ends of lines, the names of files and the folder in which it runs.

BEFORE = "".join(f"line {number}\n" for number in range(20)).encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BEFORE, BEFORE.replace(b"line 3\n", b"line 3\nmore\n")),
        (BEFORE, BEFORE.replace(b"line 3\n", b"").replace(b"line 17", "zeile ü".encode())),
        (BEFORE.replace(b"\n", b"\r\n"), BEFORE.replace(b"\n", b"\r\n").replace(b"line 3", b"other")),
        (BEFORE.rstrip(), BEFORE.rstrip() + b" changed"),
        (BEFORE.rstrip(), BEFORE.rstrip() + b"\nmore"),
        (BEFORE.rstrip(), BEFORE.replace(b"line 3\n", b"", 1).rstrip()),
        (b"a\rb\x0cc\n", b"a\rb\x0cd\n"),
        (b"--- a\n+++ b\n", b"--- a\n+++ c\n"),
    ],
)
@pytest.mark.parametrize("name", ["job.py", "a folder/job.py", "größe.py", 'a"b\\c.py'])
def test_git_applies_it(tmp_path: Path, name: str, before: bytes, after: bytes) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before)
    apply_patch(tmp_path, unified_diff(name, before, after))
    assert path.read_bytes() == after


def test_names_are_relative_to_the_folder_in_which_git_runs(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "inner").mkdir()
    path = tmp_path / "inner" / "job.py"
    path.write_bytes(BEFORE)
    patch = unified_diff("job.py", BEFORE, BEFORE + b"more\n")
    subprocess.run(["git", "apply", "-"], cwd=path.parent, input=patch.encode(), check=True)
    assert path.read_bytes() == BEFORE + b"more\n"


def test_nothing_changed_is_no_patch() -> None:
    assert unified_diff("job.py", BEFORE, BEFORE) == ""
