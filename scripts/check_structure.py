"""Fails on a public class name twice, a module without a first line, and errors below `cli` that name flags.

Prints counts of the code's shape.

python scripts/check_structure.py
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "redline"
VAGUE = frozenset({"one", "found", "each"})
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
FLAGS_OF_OTHERS = frozenset({"--help", "--help-env", "--its-own", "--nproc-per-node"})  # of torchrun, Python, scripts


@dataclass(frozen=True, kw_only=True)
class Structure:
    """What is wrong, and how large the code is."""

    complaints: tuple[str, ...]
    counts: Mapping[str, int]


def structure_of(package: Path) -> Structure:
    modules = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py"))}
    places = defaultdict(list)
    for path, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(package)))
    twice = {name: where for name, where in sorted(places.items()) if len(where) > 1}
    silent = [path for path, tree in modules.items() if path.stat().st_size and not ast.get_docstring(tree)]
    file_names = Counter(path.name for path in modules if path.name != "__init__.py")
    return Structure(
        complaints=(
            *(f"class {name} is defined in {' and in '.join(where)}" for name, where in twice.items()),
            *(f"{path.relative_to(package)} has no first line that says what it is for" for path in silent),
            *(
                f"{path.relative_to(package)}: an error names {flag}; name the parameter, as redline.errors says"
                for path, tree in modules.items()
                if path.relative_to(package).parts[0] != "cli"
                for flag in sorted(set(_flags_in_errors(tree)) - FLAGS_OF_OTHERS)
            ),
        ),
        counts={
            "public class names defined twice": len(twice),
            "modules without a first line": len(silent),
            "file names that repeat": sum(1 for times in file_names.values() if times > 1),
            "vague local names": sum(1 for tree in modules.values() for _ in _vague(tree)),
            "files": len(modules),
            "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in modules),
            "lines of the longest function": max(length for tree in modules.values() for length in _lengths(tree)),
        },
    )


def _vague(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        is_stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE
        if is_stored or (isinstance(node, ast.arg) and node.arg in VAGUE):
            yield node


def _flags_in_errors(tree: ast.Module) -> Iterator[str]:
    """Those in the arguments of an error, and in texts that its arguments name."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func).endswith("Error")]
    arguments = [node for call in calls for node in ast.walk(call)]
    named = {node.id for node in arguments if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(_name(target) in named for target in node.targets):
            arguments += ast.walk(node.value)
    for node in arguments:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from FLAG.findall(node.value)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _lengths(tree: ast.Module) -> Iterator[int]:
    yield 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield node.end_lineno - node.lineno + 1


def main() -> int:
    structure = structure_of(PACKAGE)
    for name, number in structure.counts.items():
        print(f"{number:7,}  {name}")
    for complaint in structure.complaints:
        print(complaint, file=sys.stderr)
    return 1 if structure.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
