"""Fails on a public class name twice, a module without a first line, a flag in an error below `cli`, or a lost page.

Prints counts of the code's shape. A lost page of the documentation is one that its navigation does not name.

python -m scripts.check_structure
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from scripts.docs_site import TRANSLATED, whole_nav

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "redline"
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


def site_complaints(docs: Path, nav: Sequence[object]) -> list[str]:
    """Pages that the site does not lead to, and names of pages that are not there."""
    files = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    pages = {name for name in files if not name.endswith(TRANSLATED)}
    listed = set(_pages_in(nav))
    linked = {"index.md", *_links_of(docs / "index.md", docs)}
    originals = {name: name.replace(TRANSLATED, ".md") for name in files - pages}
    return [
        *(f"docs/{name} is not in the navigation of mkdocs.yml" for name in sorted(pages - listed)),
        *(f"the navigation names docs/{name}, which does not exist" for name in sorted(listed - pages)),
        *(
            f"docs/{name} is not linked from docs/index.md"
            for name in sorted(pages - linked)
            if not name.startswith(("findings/", "levers/"))
        ),
        *(
            f"docs/{name} translates {page}, which does not exist"
            for name, page in originals.items()
            if page not in pages
        ),
    ]


def _pages_in(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, Mapping):
        yield from _pages_in(list(nav.values()))
    elif isinstance(nav, Sequence):
        for inner in nav:
            yield from _pages_in(inner)


def _links_of(page: Path, docs: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)\s#]+\.md)", page.read_text(encoding="utf-8")):
        yield str((page.parent / link).resolve().relative_to(docs.resolve()))


def main() -> int:
    structure = structure_of(PACKAGE)
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    complaints = [*structure.complaints, *site_complaints(ROOT / "docs", whole_nav(nav))]
    for name, number in structure.counts.items():
        print(f"{number:7,}  {name}")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
