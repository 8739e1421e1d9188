"""A layout as a shell script that starts a framework with it: what all frameworks share, its text, configs in YAML."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from redline.errors import ParameterError
from redline.model.model import Model
from redline.plan.train.layout import Layout
from redline.plan.train.search.plan import TrainingPlan
from redline.plan.train.training_choices import FRAMEWORKS
from redline.plan.train.workload import Transformer
from redline.report.plan.layouts import as_text

WIDTH = 100


@dataclass(frozen=True, kw_only=True)
class LaunchScript:
    """How a framework is told to run a layout, and what it cannot be told."""

    command: tuple[str, ...]
    """Words of a command line; words that begin with "$" are variables of the shell."""
    config: tuple[str, str] = ("", "")
    """Name and text of a file that the script writes before it starts the job; none without a name."""
    environment: Mapping[str, str] = field(default_factory=dict)
    not_expressed: Iterable[str]
    """What of the layout the framework has no setting for."""
    fill_in: str
    """What no plan knows: data, learning rate."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Nodes, and processes on each."""

    nodes: int
    processes: int

    @property
    def devices(self) -> int:
        return self.nodes * self.processes


def launch_script(plan: TrainingPlan, framework: str) -> str:
    """The best layout of the plan in the words of a framework. Raises ParameterError where it has none for it."""
    if framework not in FRAMEWORKS:
        raise ParameterError("emit", f" {framework}: there is no such framework; there are: {', '.join(FRAMEWORKS)}")
    script: LaunchScript = import_module(f"redline.report.plan.launch.{framework}").launch_script(plan)
    best, batch = plan.best, plan.batch
    head = (
        f"{plan.workload.name or 'a model'} on {plan.devices} {plan.machine.name} in {plan.dtype}, "
        f"{batch.sequences:,.0f} {plan.workload.batch_unit} of {batch.sequence:,.0f} per step",
        f"{as_text(best.layout, best.micro_batches)}",
        f"predicted: {best.step_s:.4g} s per step ({best.step_low_s:.4g} to {best.step_high_s:.4g}), "
        f"{best.peak_bytes / 1e9:.1f} GB per GPU, OOM probability {best.chance:.0%}",
    )
    return render(head, replace(script, not_expressed=(*_gaps_of_all(plan), *script.not_expressed)))


def cluster_of(plan: TrainingPlan) -> Cluster:
    """As few nodes as hold the devices, with as many processes on each."""
    least = -(-plan.devices // plan.devices_per_node)
    nodes = next(nodes for nodes in range(least, plan.devices + 1) if plan.devices % nodes == 0)
    return Cluster(nodes=nodes, processes=plan.devices // nodes)


def torchrun(plan: TrainingPlan) -> tuple[str, ...]:
    cluster = cluster_of(plan)
    if cluster.nodes == 1:
        return ("torchrun", "--standalone", f"--nproc-per-node={cluster.processes}")
    return (
        "torchrun",
        f"--nnodes={cluster.nodes}",
        f"--nproc-per-node={cluster.processes}",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=$MASTER_ADDR:29500",
    )


def _gaps_of_all(plan: TrainingPlan) -> Iterator[str]:
    """What no framework's launch arguments or config say."""
    if plan.best.layout.lora:
        yield f"LoRA of rank {plan.best.layout.lora:.0f}: adapters are added in code"
    if plan.best.layout.execution:
        yield "compiled code or CUDA graphs: the framework's own switch, where it has one"
    if plan.dtype == "tf32":
        yield "tf32: torch.set_float32_matmul_precision('high') before the first matmul"


def refuse_dimensions(layout: Layout, framework: str, reasons: Mapping[str, str]) -> None:
    """Raise ParameterError where the layout divides the job in a way that the framework's config has no setting for."""
    for name, reason in reasons.items():
        size = int(getattr(layout, name))
        if size > 1:
            raise ParameterError(
                "emit", f" {framework}: the best layout has {name} {size}, and {reason}; fix {name} at 1"
            )


def render(head: Iterable[str], script: LaunchScript) -> str:
    """The script, with what it was made for and what it leaves out as comments."""
    lines = ["#!/bin/sh", *(f"# {line}" for line in head)]
    lines += [f"# Not expressed: {note}" for note in script.not_expressed]
    lines += [f"# Fill in: {script.fill_in}", "set -eu", ""]
    name, text = script.config
    if name:
        lines += [f"cat >{name} <<'END'", text.rstrip("\n"), "END", ""]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in script.environment.items()]
    return "\n".join([*lines, *_wrapped(script.command)]) + "\n"


def _wrapped(command: Sequence[str]) -> list[str]:
    """Lines of at most WIDTH, joined by backslashes; a value stays beside its option."""
    lines = [""]
    for words in _options(command):
        text = " ".join(words)
        if lines[-1] and len(lines[-1]) + len(text) + 3 > WIDTH:
            lines[-1] += " \\"
            lines.append(f"    {text}")
        else:
            lines[-1] = f"{lines[-1]} {text}".lstrip(" ") if len(lines) == 1 else f"{lines[-1]} {text}"
    return lines


def _options(command: Sequence[str]) -> list[list[str]]:
    """Quoted words, each option with its values."""
    groups: list[list[str]] = []
    for word in command:
        quoted = f'"{word}"' if "$" in word else shlex.quote(word)
        if groups and not word.startswith("-") and groups[-1][0].startswith("--"):
            groups[-1].append(quoted)
        else:
            groups.append([quoted])
    return groups


def yaml_text(values: Mapping[str, Any]) -> str:
    """Nested mappings as YAML, for configs that frameworks read."""
    return "\n".join(_yaml_lines(values, "")) + "\n"


def _yaml_lines(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _yaml_lines(value, f"{indent}  ")
        else:
            # JSON's scalars and lists are YAML's as well, but for numbers like 1e-08, which YAML 1.1 reads as text.
            yield f"{indent}{key}: {_yaml_number(value) if isinstance(value, float) else json.dumps(value)}"


def _yaml_number(value: float) -> str:
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


# --- frameworks that build their own transformers ---------------------------------------------------------------------


DECODERS_ONLY = "builds decoders of its own; this plan is of a module of yours: emit accelerate or deepspeed"


def model_of(plan: TrainingPlan, framework: str) -> Model:
    if not isinstance(plan.workload, Transformer):
        raise ParameterError("emit", f" {framework}: it {DECODERS_ONLY}")
    return plan.workload.model


def plain_decoder_gaps(model: Model) -> Iterator[str]:
    """Parts that the framework's usual decoder does not have."""
    if not model.causal or model.patch_in or model.joint_layers or model.modulation:
        yield "the model: it is no decoder of tokens"
    if model.state_layers:
        yield "layers with a state-space mixer"
    if model.window_layers:
        yield "sliding windows of attention"


def is_latent(model: Model) -> bool:
    return bool(model.kv_rank > 0)


def has_layer_norm(model: Model) -> bool:
    """Told by counts: a norm with a bias has twice as many numbers as one without."""
    plain = (2 * model.layers + 1) * model.hidden
    return float(model.norm_weights) >= 2 * float(plain)


def layers_per_piece(model: Model, layout: Layout) -> list[int]:
    """Layers of each piece of a pipeline, in order; the first pieces have one more where they do not divide evenly."""
    pieces = int(layout.pp * max(1, layout.chunks))
    each, more = divmod(int(model.layers), pieces)
    return [each + (at < more) for at in range(pieces)]
