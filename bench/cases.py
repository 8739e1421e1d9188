"""The cases of a folder: jobs that run on a CPU, and timelines of GPUs that the synthetic generator makes."""

import ast
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Literal

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

HERE = Path(__file__).resolve().parent
SET_ASIDE = (HERE / "set_aside", HERE / "set_aside_2", HERE / "set_aside_3")
"""Cases that were written from the causes alone, in the order in which they were scored; see the page."""
ROOT = HERE.parent
FRAMEWORK_STYLES = ("hf", "diffusers", "accelerate", "lightning")

CaseKind = Literal["job", "timeline"]

COUNTED_JOBS = ("ddp_no_sync", "fp64")
"""Jobs whose cause is counted: other load on the machine cannot hide it."""
TIMED_JOBS = ("attention_manual", "optimizer_loop", "tiny_operators")
"""Jobs whose cause is a share of the time, which takes a machine that nobody else uses: no part of the sample."""
TIMELINES = (
    "gpu_accumulation_without_no_sync",
    "gpu_all_reduce_after_backward",
    "gpu_allocator_stalls",
    "gpu_batch_from_pageable_memory",
    "gpu_buffer_broadcasts",
    "gpu_elementwise_chain",
    "gpu_exposed_all_to_all",
    "gpu_fp32_gradients",
    "gpu_fp32_products",
    "gpu_gathers_not_prefetched",
    "gpu_item_reads",
    "gpu_launch_bound",
    "gpu_layout_conversions",
    "gpu_metrics_reduced_one_by_one",
    "gpu_rank_computes_longer",
    "gpu_rank_late_every_4_steps",
    "gpu_recomputation",
    "gpu_serving_gaps",
    "gpu_unfused_attention",
)
SAMPLE = ("fp64", *TIMELINES)
"""What CI runs: cheap, and of every area."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One module of `jobs` or `timelines`."""

    name: str
    kind: CaseKind
    path: Path
    label: Label
    summary: str  # the first line of the module

    @property
    def folder(self) -> Path:
        """What holds `jobs` and `timelines`, and what they share."""
        return self.path.parent.parent

    @property
    def group(self) -> str:
        """The folder of those set aside that it is in; "" for an open one."""
        return self.folder.name if self.folder in SET_ASIDE else ""

    @property
    def title(self) -> str:
        """Its name among all cases: those set aside may have that of an open one."""
        return f"{self.group}/{self.name}" if self.group else self.name


def cases_in(folder: Path, patterns: Sequence[str] = ()) -> list[Case]:
    """All cases of a folder whose names match one of the patterns, by name; every case without a pattern."""
    paths = [*sorted((folder / "jobs").glob("*.py")), *sorted((folder / "timelines").glob("*.py"))]
    chosen = [_case(path) for path in paths if path.stem != "__init__" and _matches(path.stem, patterns)]
    missing = [pattern for pattern in patterns if not any(fnmatchcase(case.name, pattern) for case in chosen)]
    if missing:
        raise ValueError(f"no case of {folder} is called {', '.join(missing)}")
    names = [case.name for case in chosen]
    if len(set(names)) < len(names):
        raise ValueError(f"a job and a timeline of {folder} have the same name")
    return chosen


def specs_of(case: Case) -> Callable[[bool], JobSpec]:
    """The function of a timeline that makes the flawed twin, or the healthy one."""
    specs: Callable[[bool], JobSpec] = loaded(case.path).specs
    return specs


def loaded(path: Path) -> ModuleType:
    """A case as a module; what cases share is found beside them first, and in this package."""
    for folder in (HERE, path.parent.parent):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(f"bench_case_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _case(path: Path) -> Case:
    """Read from the text: importing a job would import torch, or a framework that is not installed here."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kind: CaseKind = "job" if path.parent.name == "jobs" else "timeline"
    summary = (ast.get_docstring(tree) or "").partition("\n")[0]
    return Case(name=path.stem, kind=kind, path=path, label=_label(tree, path), summary=summary)


def _label(tree: ast.Module, path: Path) -> Label:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _assigns(node, "LABEL"):
            return Label(**{word.arg: ast.literal_eval(word.value) for word in node.value.keywords if word.arg})
    raise ValueError(f"{path} has no LABEL = Label(...) of literals")


def _assigns(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
