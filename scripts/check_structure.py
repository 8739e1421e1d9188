"""Counts the shape of the code, and fails where it breaks a promise of the house.

A promise: each module says what it is for, an error below `cli` names no flag, each page of the documentation is in
the navigation, tests share what is in `tests.support` and nothing else, and `src` is no larger than its budget in
`pyproject.toml`, plus what a change may add beyond it.

python -m scripts.check_structure
"""

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from scripts.docs_site import TRANSLATED, whole_nav

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "redline"
SHARED = ("tests.support.", "tests.e2e.programs.")
VAGUE = frozenset({"one", "found", "each"})
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
FLAGS_OF_OTHERS = frozenset({"--help", "--help-env", "--its-own", "--nproc-per-node"})  # of torchrun, Python, scripts
SHORT = 60  # lines: a module below it that one other module alone imports belongs into that one
ALLOWED_GROWTH = 300  # lines that a change may add without raising the budget
FRONT = ("cli", "mcp", "report", "verbs")


@dataclass(frozen=True, kw_only=True)
class Modules:
    """The modules of a package by dotted name, with what each imports of the others."""

    package: Path
    trees: Mapping[str, ast.Module]
    paths: Mapping[str, Path]

    @classmethod
    def read(cls, package: Path) -> "Modules":
        paths = {_dotted(path, package): path for path in sorted(package.rglob("*.py"))}
        trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}
        return cls(package=package, trees=trees, paths=paths)

    def imports(self, name: str, *, inside_functions: bool = True) -> set[str]:
        """Modules that `name` imports, also for types alone."""
        named: set[str] = set()
        nodes: list[ast.AST] = [self.trees[name]]
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.ImportFrom) and node.module:
                named |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
                nodes += () if is_for_types and not inside_functions else ast.iter_child_nodes(node)
        return {module for module in map(self._module_of, named) if module} - {name}

    def reached_from(self, start: str) -> set[str]:
        """Modules that importing `start` may load, packages around them included."""
        reached: set[str] = set()
        left = {start}
        while left:
            name = left.pop()
            reached.add(name)
            parent = name.rpartition(".")[0]
            left |= self.imports(name, inside_functions=False) | ({parent} & set(self.trees))
            left -= reached | {self.package.name}
        return reached - {start}

    def lines(self, name: str) -> int:
        return len(self.paths[name].read_text(encoding="utf-8").splitlines())

    def _module_of(self, name: str) -> str:
        while name and name not in self.trees:
            name = name.rpartition(".")[0]
        return name


def _dotted(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def counts_of(modules: Modules) -> dict[str, int]:
    """The figures that a house is judged by."""
    importers = Counter(module for name in modules.trees for module in modules.imports(name))
    folded = [name for name, times in importers.items() if times == 1 and 0 < modules.lines(name) < SHORT]
    sizes = {name: modules.lines(name) for name in modules.trees}
    rooms: dict[str, int] = defaultdict(int)
    for name, size in sizes.items():
        rooms[name.split(".")[1] if "." in name else ""] += size
    trees = modules.trees.values()
    template = modules.package / "report" / "locale" / "redline.pot"
    file_names = Counter(path.name for path in modules.paths.values() if path.name != "__init__.py")
    return {
        "lines": sum(sizes.values()),
        "files": len(sizes),
        f"lines of {', '.join(FRONT)}": sum(rooms[room] for room in FRONT),
        "dataclasses": sum(1 for tree in trees for node in ast.walk(tree) if _is_dataclass(node)),
        f"modules below {SHORT} lines with one importer": len(folded),
        "modules that redline.verbs.diagnose may load": len(
            modules.reached_from(f"{modules.package.name}.verbs.diagnose")
        ),
        "circles of files that import each other": len(circles_of(modules)),
        "texts to translate": template.read_text(encoding="utf-8").count("\nmsgid ") - 1,
        "file names that repeat": sum(1 for times in file_names.values() if times > 1),
        "vague local names": sum(1 for tree in trees for _ in _vague(tree)),
        "lines of the longest function": max(length for tree in trees for length in _lengths(tree)),
    }


def complaints_of(modules: Modules, budget_lines: int) -> list[str]:
    size = sum(map(modules.lines, modules.trees))
    files = {name: str(path.relative_to(modules.package)) for name, path in modules.paths.items()}
    return [
        *(
            f"{files[name]} has no first line that says what it is for"
            for name, tree in modules.trees.items()
            if tree.body and not ast.get_docstring(tree)
        ),
        *(
            f"{files[name]}: an error names {flag}; name the parameter, as redline.errors says"
            for name, tree in modules.trees.items()
            if not files[name].startswith("cli")
            for flag in sorted(set(_flags_in_errors(tree)) - FLAGS_OF_OTHERS)
        ),
        *(
            [f"src has {size:,} lines, its budget is {budget_lines:,}: remove some, or raise it and say why"]
            if size > budget_lines + ALLOWED_GROWTH
            else []
        ),
    ]


def circles_of(modules: Modules) -> list[list[str]]:
    """Groups of files that reach each other by imports: Tarjan's algorithm, without the lazy top package."""
    edges = {name: [to for to in modules.imports(name) if "." in to] for name in modules.trees if "." in name}
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    circles = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        path.append(name)
        for to in edges[name]:
            if to not in order:
                visit(to)
            if to in path:
                lowest[name] = min(lowest[name], lowest[to])
        if lowest[name] == order[name]:
            group = path[path.index(name) :]
            del path[-len(group) :]
            circles.append(group)

    for name in edges:
        if name not in order:
            visit(name)
    return [sorted(group) for group in circles if len(group) > 1]


def _is_dataclass(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any("dataclass" in ast.dump(mark) for mark in node.decorator_list)


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


def import_complaints(root: Path) -> list[str]:
    """Imports from tests of anything but what they share: `tests.support`, and the programs that they run."""
    return [
        f"{path.relative_to(root)} imports from {module}; what tests share is in tests.support"
        for folder in ("tests", "bench", "scripts", "examples")
        for path in sorted((root / folder).rglob("*.py"))
        for module in sorted(set(_imported(ast.parse(path.read_text(encoding="utf-8")))))
        if module.split(".")[0] == "tests" and not f"{module}.".startswith(SHARED)
    ]


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


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
            if not name.startswith(("decisions/", "findings/", "levers/"))
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
    modules = Modules.read(PACKAGE)
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["redline"]
    complaints = [
        *complaints_of(modules, settings["budget_lines"]),
        *import_complaints(ROOT),
        *site_complaints(ROOT / "docs", whole_nav(nav)),
    ]
    for name, number in counts_of(modules).items():
        print(f"{number:7,}  {name}")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
