"""The tool `plan`: what a training or serving job should cost before it runs; only computed, nothing is started."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from redline.errors import UsageError
from redline.mcp.allowed_folders import AllowedFolders
from redline.mcp.bounded_answer import BoundedAnswer, RowPage
from redline.mcp.tool import AgentTool, Offset, command_line, machine_name
from redline.model.huggingface import known_models
from redline.plan.train.training_choices import PRECISIONS
from redline.verbs.plan import is_module, plan_serving, plan_training
from redline.verbs.plan_results import PlannedServing, PlannedTraining

Amount = Annotated[float, Meta(gt=0, le=1e6)]
Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Tokens = Annotated[int, Meta(ge=1, le=100_000_000)]
LayoutField = Literal["dp", "tp", "pp", "cp", "ep", "shard", "micro_batch", "chunks", "zero", "schedule", "recompute"]
LayoutValue = Annotated[int, Meta(ge=0, le=131_072)] | Annotated[str, Meta(max_length=20)]
Table = Literal["ranked", "frontier", "alternatives", "changes", "points"]
_NEEDED = {"train": ("gpus", "batch"), "serve": ("prompt", "output_tokens")}
_OF_BOTH = ("gpus", "precision", "price")
_FOR = {
    "train": ("batch", "sequence", "layout", "tokens"),
    "serve": ("prompt", "output_tokens", "max_ttft_s", "max_tpot_s", "concurrency"),
}
_TABLES = {"train": ("ranked", "frontier", "alternatives", "changes"), "serve": ("frontier", "points")}
_VERBS: Mapping[str, Callable[..., PlannedTraining | PlannedServing]] = {"train": plan_training, "serve": plan_serving}


class PlanArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The job to plan, and which part of the answer to show."""

    kind: Annotated[Literal["train", "serve"], Meta(description="what to plan")]
    model: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1_024,
            description="a known name such as llama-3.1-8b, or a config.json inside the allowed folders",
        ),
    ]
    machine: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1_024,
            description="a record of the tool hardware, or a profile inside the allowed folders",
        ),
    ]
    gpus: Annotated[int, Meta(ge=1, le=131_072, description="number of GPUs")] | None = None
    precision: Annotated[str, Meta(max_length=20, description=f"one of {', '.join(PRECISIONS)}")] = "bf16"
    price: Annotated[Amount, Meta(description="per GPU-hour, in any currency; to train, with tokens")] | None = None
    batch: Annotated[Count, Meta(description="train: sequences per step, over all GPUs")] | None = None
    sequence: Annotated[Tokens, Meta(description="train: tokens per sequence")] | None = None
    layout: Annotated[
        dict[LayoutField, LayoutValue], Meta(description="train: fixed choices; the rest is searched")
    ] = {}
    tokens: Annotated[float, Meta(gt=0, le=1e18, description="train: of the whole job, for days and money")] | None = (
        None
    )
    prompt: Annotated[Tokens, Meta(description="serve: tokens of a prompt")] | None = None
    output_tokens: Annotated[Tokens, Meta(description="serve: tokens that are generated")] | None = None
    concurrency: (
        Annotated[list[Count], Meta(min_length=1, max_length=16, description="serve: concurrent requests per replica")]
        | None
    ) = None
    max_ttft_s: Annotated[Amount, Meta(description="serve: limit of the time to the first token")] | None = None
    max_tpot_s: Annotated[Amount, Meta(description="serve: limit of the time per output token")] | None = None
    table: Annotated[Table, Meta(description="show this table instead of the summary")] | None = None
    offset: Offset = 0


def answer(arguments: PlanArguments, folders: AllowedFolders) -> BoundedAnswer:
    _refuse_misfits(arguments)
    model = model_source(arguments.model, folders)
    machine = machine_name(arguments.machine, folders) or ""
    record = _VERBS[arguments.kind](model, machine=machine, **_given(arguments)).record()
    facts = {"tool": "plan", "kind": arguments.kind, "means": "predicted, nothing was run; low and high: 80 % interval"}
    verify = _verify(arguments, model, machine)
    again = {name: value for name, value in msgspec.structs.asdict(arguments).items() if value and name != "offset"}
    if arguments.table is not None:
        return BoundedAnswer(
            facts={**facts, "table": arguments.table, "verify": verify},
            pages={"rows": RowPage(rows=record[arguments.table], offset=arguments.offset, ask=again)},
        )
    return BoundedAnswer(
        facts={**facts, **{name: record[name] for name in _FACTS[arguments.kind].split()}, "verify": verify},
        pages={
            "unknown": RowPage(rows=list(map(_evidence, record["evidence"])), least=4),
            "frontier": RowPage(rows=record["frontier"], ask={**again, "table": "frontier"}, most=3),
        },
    )


_FACTS = {
    "train": "model parameters machine devices fits tokens_per_step considered fitting best safer job",
    "serve": "model parameters machine engine prompt output measured_here situation best refused",
}


def model_source(name: str, folders: AllowedFolders) -> str:
    """A known name, or the path of a config.json that is allowed. Code is not run for an agent."""
    if is_module(name):
        raise UsageError("model: a Python module would be run; give a known name or a config.json")
    known = name.rpartition("/")[2].lower()
    if known in known_models() and not Path(known).exists():
        return known
    if "/" not in name and not name.endswith(".json"):
        return known  # the planner says which names are near
    path = folders.path(name)
    return str(folders.path(str(path / "config.json")) if path.is_dir() else path)


def _refuse_misfits(arguments: PlanArguments) -> None:
    kind = arguments.kind
    missing = [name for name in _NEEDED[kind] if getattr(arguments, name) is None]
    if missing:
        raise UsageError(f"plan: to {kind}, give {' and '.join(missing)} as well")
    other = "serve" if kind == "train" else "train"
    extra = [name for name in _FOR[other] if getattr(arguments, name)]
    if extra:
        raise UsageError(f"plan: {extra[0]} is for kind={other}; leave it out")
    if arguments.table is not None and arguments.table not in _TABLES[kind]:
        raise UsageError(f"plan: to {kind}, table is one of {', '.join(_TABLES[kind])}")


def _given(arguments: PlanArguments) -> dict[str, Any]:
    """What the function of the verb is called with: its parameters have the same names."""
    given = {name: getattr(arguments, name) for name in (*_OF_BOTH, *_FOR[arguments.kind])}
    if arguments.kind == "serve":
        given["precision"] = (arguments.precision,)
    return {name: value for name, value in given.items() if value is not None}


def _verify(arguments: PlanArguments, model: str, machine: str) -> str:
    names = (*_OF_BOTH, "batch", "sequence", "tokens", "prompt", "output_tokens")
    options: dict[str, object] = {"--model": model, "--machine": machine}
    options |= {f"--{name.replace('_', '-')}": _spelt(getattr(arguments, name)) for name in names}
    options |= {f"--{name.replace('_', '-')}": value for name, value in arguments.layout.items()}
    limits = {"--max-ttft": arguments.max_ttft_s, "--max-tpot": arguments.max_tpot_s}
    options |= {name: None if limit is None else f"{limit:.12g}s" for name, limit in limits.items()}
    options["--concurrency"] = None if arguments.concurrency is None else ",".join(map(str, arguments.concurrency))
    return command_line("plan", arguments.kind, options={**options, "--json": True, "--quiet": True})


def _spelt(value: object) -> object:
    return f"{value:.15g}" if isinstance(value, float) else value


def _evidence(row: Mapping[str, Any]) -> dict[str, Any]:
    what = row.get("what") or row.get("metric")
    says = f"{what}: median error {row['median']:.0%}, p90 {row['p90']:.0%}, of {row['rows']:,} held-out runs"
    return {"what": "error_of_predictions", "says": says}


TOOL = AgentTool(
    name="plan",
    title="Plan training or serving",
    description=(
        "Predicts step time, memory, OOM probability and cost of training a transformer on so many GPUs, with the "
        "best layout (dp, tp, pp, cp, ep, ZeRO), or latency and throughput of serving one. Use it before GPUs are "
        "rented, or to judge a measured step against what the hardware allows. Predictions have an 80 % interval: give "
        "it with every figure. Nothing is run."
    ),
    takes=PlanArguments,
    answer=answer,
)
