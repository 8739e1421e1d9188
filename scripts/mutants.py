"""Makes each mistake of `tests/mutants.toml` in a copy of the package, and says which of them no test notices.

    python -m scripts.mutants [part of a name ...]

Each mistake takes a run of the tests of its area, up to the first that fails; real traces are not used.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "mutants.toml"
_LIMIT_S = 1800


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One mistake: `before` is replaced by `after` in a file of the package."""

    name: str
    file: str
    before: str
    after: str

    @property
    def path(self) -> Path:
        return Path("redline") / self.file

    @property
    def area(self) -> str:
        return self.file.partition("/")[0]


def mutants() -> list[Mutant]:
    return [Mutant(**entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]]


def speaking_for(area: str) -> list[str]:
    """The tests that speak for an area, none of which starts a job."""
    patterns: list[str] = tomllib.loads(LIST.read_text(encoding="utf-8"))["tests"][area]
    return [str(path) for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def survives(mutant: Mutant) -> bool:
    with tempfile.TemporaryDirectory(prefix="redline-mutant-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "docs", Path(folder) / "docs")  # pages of findings are read from there
        text = (copy / mutant.path).read_text(encoding="utf-8")
        (copy / mutant.path).write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(copy), "REDLINE_TRACES": folder}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
        command += ["-n", "0", *speaking_for(mutant.area)]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    if done.returncode > 1:
        raise SystemExit(f"the tests did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def main(parts: list[str]) -> int:
    chosen = [one for one in mutants() if not parts or any(part in one.name for part in parts)]
    if stale := [one.name for one in chosen if (ROOT / "src" / one.path).read_text().count(one.before) != 1]:
        raise SystemExit(f"not of the code as it is: {', '.join(stale)}")
    for area in sorted({one.area for one in chosen}):  # or else anything would be noticed
        if not survives(Mutant(name="none", file=f"{area}/__init__.py", before="", after="")):
            raise SystemExit(f"the tests of {area} fail without any mistake")
    survivors = []
    for mutant in chosen:
        survived = survives(mutant)
        survivors += [mutant.name] if survived else []
        print(f"{'SURVIVED' if survived else 'killed  '}  {mutant.name}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} killed")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
