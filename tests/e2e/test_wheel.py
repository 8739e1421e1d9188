"""The wheel: the same sources give the same bytes, wherever it is built, and its bill of materials is true."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.command_line import ROOT

NOT_SHIPPED = ("damage", "mutate", "fuzz", "synthetic.py", "tests/", "testing/")  # what only the tests need
PARTS = ("src", "docs/findings", "docs/levers", "README.md", "LICENSE", "pyproject.toml")


def built(folder: Path, mtime_s: int, mode: int) -> Path:
    """The wheel of a copy of the sources in this folder, with times and permissions of its own."""
    pytest.importorskip("hatchling")
    for part in PARTS:
        source, target = ROOT / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for path in folder.rglob("*"):
        os.utime(path, (mtime_s, mtime_s))
        if path.is_file():
            path.chmod(mode)
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder / "dist"),
        str(folder),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    return next((folder / "dist").glob("*.whl"))


def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    first = built(tmp_path / "one", 1_000_000_000, 0o644)
    second = built(tmp_path / "elsewhere" / "two", 1_700_000_000, 0o600)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as wheel:
        names = wheel.namelist()
    assert "redline/cli/__init__.py" in names
    assert {"redline/findings/documents/RL-H01.md", "redline/trials/lever_documents/fused.zh-CN.md"} <= set(names)
    assert [name for name in names if any(word in name for word in NOT_SHIPPED)] == []


def test_the_bill_of_materials_names_what_the_wheel_needs(tmp_path: Path) -> None:
    """Of this environment; CI writes the one of an environment that holds the wheel alone."""
    wheel = tmp_path / "redline_perf-0-py3-none-any.whl"
    wheel.write_bytes(b"not a wheel, but its checksum is known")
    script = ROOT / "scripts" / "write_sbom.py"
    texts = []
    for _ in range(2):
        subprocess.run([sys.executable, str(script), str(wheel)], check=True, capture_output=True, timeout=60)
        texts.append(wheel.with_suffix(".cdx.json").read_text())
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]
    bill = json.loads(texts[0])
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    product = bill["metadata"]["component"]
    assert len(product["hashes"][0]["content"]) == 64
    known = {one["bom-ref"] for one in bill["components"]} | {product["bom-ref"]}
    edges = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert set(edges) == known
    assert {ref for refs in edges.values() for ref in refs} <= known
    names = {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in edges[product["bom-ref"]]}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert names == {one.partition(">=")[0] for one in wanted}
