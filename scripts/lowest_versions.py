"""Run the tests with the lowest versions that pyproject.toml allows, for example: scripts/lowest_versions.py tests/unit

The floors are installed into an environment of their own, in front of the one that runs this script. That one has the
rest: torch, pytest and this checkout. What follows is handed to pytest.
"""

import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FLOOR = re.compile(r"([A-Za-z0-9._-]+)>=([0-9.]+)")


def floors() -> list[str]:
    """Of everything that a user may install: `numpy==1.26`, and so on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["frames"]]
    found = [_FLOOR.fullmatch(one) for one in wanted]
    if not all(found):
        sys.exit(f"a dependency without a plain floor: {wanted}")
    return [f"{one[1]}=={one[2]}" for one in found if one is not None]


def make_environment(folder: Path) -> Path:
    """The python of an environment with the floors; what they do not bring comes from this one."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", *floors()], check=True)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    here = sysconfig.get_path("purelib")
    (packages / "rest.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    return python


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="redline-lowest.") as folder:
        python = make_environment(Path(folder))
        names = [one.partition("==")[0] for one in floors()]
        shown = f"from importlib.metadata import version; print(*(f'{{n}} {{version(n)}}' for n in {names}), sep=', ')"
        subprocess.run([str(python), "-c", shown], check=True)
        return subprocess.run([str(python), "-m", "pytest", *sys.argv[1:]], check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
