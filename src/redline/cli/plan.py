"""`redline plan` on the command line: what to plan comes first, and each kind of plan has its own options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redline.cli.arguments import FORMATS, Quiet, Speaking, language, refuse_other_endings
from redline.cli.options import Options, Verb, VerbKinds, arguments_for, entries, flag, value, values
from redline.cli.output import deliver, for_stdout, point_to, quoted, show, speaks_unicode
from redline.cli.show_progress import progress
from redline.cli.values import (
    above_zero,
    chosen,
    count,
    names,
    positive,
    settings,
    several,
    share,
    size,
    size_bytes,
    time_s,
)
from redline.errors import UsageError
from redline.plan.serve.serving_defaults import ENGINE, ENGINES, LOADS, SIZES
from redline.plan.train.training_choices import (
    ACCEPTED_CHANCE,
    BY,
    EXECUTIONS,
    FRAMEWORKS,
    PRECISIONS,
    RECOMPUTES,
    SCHEDULES,
    TOP,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from redline.verbs.plan_results import ShownPlan

SCRIPT, TRACE = ".sh", ".json.gz"
REPORTS = {".html": "the page", ".json": "the figures", ".txt": "the text"}


def _outputs(forms: Mapping[str, str]) -> Any:
    kinds = ", ".join(f"{ending} {what}" for ending, what in forms.items())
    return values("FILE", f"also write FILE; the extension sets the format: {kinds}; may be repeated", "-o")


def _emit(names: Sequence[str], metavar: str, what: str) -> Any:
    return value(metavar, f"print {what}, instead of the plan: {', '.join(names)}", choices=names)


class PlanOutput(Quiet, Speaking):
    """Output"""

    output: tuple[str, ...] = _outputs(REPORTS)
    json: bool = flag("print JSON instead of text")
    force: bool = flag("replace files even if they are not Redline reports")


class Model(Options):
    """The model: name or config.json; flags override it"""

    model: str | None = value("MODEL", "a known name such as llama-3.1-8b, or a Hugging Face config.json")
    numbers: Mapping[str, float] = entries(
        layers=value("N", "layers", read=size),
        hidden=value("N", "width of the residual stream", read=size),
        heads=value("N", "attention heads", read=size),
        kv_heads=value("N", "KV heads (default: same as heads)", read=size),
        head_dim=value("N", "width of a head (default: hidden / heads)", read=size),
        ffn=value("N", "feed-forward width", read=size),
        vocab=value("N", "vocabulary size", read=size),
        experts=value("N", "experts per layer, in all layers except --dense-layers", read=size),
        experts_per_token=value("N", "experts per token", read=size),
        expert_ffn=value("N", "width of an expert (default: --ffn)", read=size),
        shared_ffn=value("N", "total width of the shared experts", read=size),
        dense_layers=value("N", "layers without experts", read=size),
        tied=flag("the LM head shares its weights with the embedding"),
        gated=flag("the feed-forward layer has two matrices, not three", "--no-gate"),
    )


class TrainedOn(Options):
    """The machine and the batch"""

    machine: str = value("NAME|FILE", "a record of `redline hardware`, or a profile", required=True)
    gpus: tuple[int, ...] = value("N", "number of GPUs; 32,64,128 plans each", required=True, read=several)
    gpus_per_node: int = value(
        "N", "GPUs that share fast links (default: as the machine's record says)", default=0, read=positive
    )
    nic_gbit: float = value(
        "GBIT", "network between nodes, Gbit/s per GPU (default: a typical one)", default=0.0, read=above_zero
    )
    precision: str = value("TYPE", f"{', '.join(PRECISIONS)} (default: bf16)", default="bf16", choices=PRECISIONS)
    stack: str | None = value("NAME", "software stack; an unknown name lists all (default: usual)")
    footprint: Mapping[str, float] | None = value(
        "NAME=NUMBER,...",
        "memory footprint of your software, such as moment_bytes=2 (default: that of the stack)",
        read=settings,
    )
    measured: str | None = value("RUN|step=TIME,...", "a step of this job that ran here: fit the constants to it")
    measured_layout: str | None = value("NAME=VALUE,...", "of --measured RUN, what its recording does not say")
    sequence: int | None = value("N", "tokens per sequence; custom modules have none", read=size)
    batch: int | None = value(
        "N", "sequences (or samples) per step, over all GPUs", either="batch", required=True, read=size
    )
    batch_tokens: int | None = value(
        "COUNT", "tokens per step, such as 4194304", either="batch", required=True, read=count
    )


def _rank(text: str) -> tuple[int]:
    return (positive(text),)


class LayoutSearch(Options):
    """The layout: a value is fixed, a list (1,2,4) is searched, the rest is free"""

    layout: Mapping[str, Any] = entries(
        dp=value("N", "data-parallel replicas", read=several),
        tp=value("N", "tensor-parallel size", read=several),
        pp=value("N", "pipeline stages", read=several),
        cp=value("N", "context-parallel size", read=several),
        ep=value("N", "expert-parallel size", read=several),
        shard=value("N", "devices that ZeRO shards over; fewer than all is HSDP", read=several),
        micro_batch=value("N", "sequences per micro-batch", read=several),
        chunks=value("N", "model chunks per stage (interleaved pipeline)", read=several),
        zero=value(
            "STAGE",
            "what replicas shard: 0 nothing, 1 optimizer, 2 + gradients, 3 + weights (FSDP)",
            read=chosen({"0": 0, "1": 1, "2": 2, "3": 3}),
        ),
        schedule=value("NAME", ", ".join(SCHEDULES), read=chosen(SCHEDULES)),
        recompute=value("WHAT", "none, selective (inside attention) or full", read=chosen(RECOMPUTES)),
        offload=value("SHARE", "share of the optimizer states kept in host memory", read=lambda text: (share(text),)),
        sequence_parallel=flag(
            "shard norms and residuals over the tensor-parallel devices (default: yes)",
            "--sequence-parallel",
            "--no-sequence-parallel",
        ),
        flash=flag("attention is not fused", "--no-flash"),
        execution=value(
            "HOW",
            "usual (as the stack's measured runs), compiled, or graphs (CUDA graphs or CUDA code)",
            read=chosen(EXECUTIONS),
        ),
        imbalance=value(
            "FACTOR",
            "tokens of the busiest GPU's experts over the average (default: 1, balanced)",
            read=lambda text: (max(1.0, above_zero(text)),),
        ),
        lora=value("RANK", "train adapters of this rank alone, beside every matrix of a layer", read=_rank),
    )


class BestLayout(Options):
    """Which layout is the best"""

    by: str = value("WHAT", "speed (default), memory or cost", default=BY[0], choices=BY)
    accept_chance: float = value(
        "SHARE",
        f"highest accepted OOM probability (default: {ACCEPTED_CHANCE})",
        default=ACCEPTED_CHANCE,
        read=share,
    )
    top: int = value("N", f"layouts to list (default: {TOP})", default=TOP, read=positive)


class WholeJob(Options):
    """The whole job"""

    tokens: int | None = value(
        "COUNT", "tokens (or samples) to train on, such as 15T: adds days, money, goodput", read=count
    )
    price: float | None = value("AMOUNT", "price per GPU-hour, in any currency", read=above_zero)
    failures: str | None = value(
        "RATE|NAME",
        "failures per node and day, or those of a published cluster such as llama-3 (default: a range of published "
        "rates)",
    )
    recovery: str | None = value(
        "NAME|RESTART,SAVE",
        "manual, automatic, asynchronous or standby; or seconds to restart and to save a checkpoint",
    )
    storage_bytes_per_s: int | None = value(
        "SIZE",
        "storage bandwidth per second, such as 100GB: sets the time of a checkpoint",
        "--storage",
        read=size_bytes,
    )
    pue: float | None = value("RATIO", "power usage effectiveness of the data centre (default: 1)", read=above_zero)


_TRAIN_FORMS = {**REPORTS, TRACE: "the predicted step as a trace", SCRIPT: "the launch script of --emit"}
_SERVE_FORMS = {**REPORTS, SCRIPT: "the launch script of --emit"}


class PlanTrainOptions(Model, TrainedOn, LayoutSearch, BestLayout, WholeJob, PlanOutput):
    """Predict what a training job should cost before it runs, and find the best layout."""

    verb = "plan train"
    usage = "--model MODEL --machine NAME|FILE --gpus N --sequence N --batch N [options]"
    example = "redline plan train --model llama-3.1-8b --machine H100-SXM5-80GB --gpus 64 --sequence 8192 --batch 512"
    model: str | None = value(
        "MODEL",
        "a known name such as llama-3.1-8b, a Hugging Face config.json, or FILE.py:FUNCTION that builds a custom "
        "module",
    )
    emit: str | None = _emit(FRAMEWORKS, "FRAMEWORK", "the best layout as a launch script")
    output: tuple[str, ...] = _outputs(_TRAIN_FORMS)

    @classmethod
    def missing(cls, given: Mapping[str, Any]) -> list[str]:
        """A model in numbers needs no name, and a module of one's own has no sequence."""
        model = given.get("model")
        no_model = [] if model or given.get("numbers") else ["--model"]
        is_module = ".py:" in str(model)
        no_sequence = [] if is_module or given.get("sequence") else ["--sequence"]
        others = super().missing(given)
        return [*no_model, *others, *no_sequence] if others or no_model else []


class PlanServeOptions(Model, PlanOutput):
    """Predict latency and throughput of serving a model, and find the best configuration."""

    verb = "plan serve"
    usage = "--model MODEL --machine NAME|FILE --prompt N --output-tokens N [options]"
    example = (
        "redline plan serve --model llama-3.1-8b --machine H100-SXM5-80GB --prompt 1000 --output-tokens 200 "
        "--max-tpot 50ms"
    )
    machine: str = value("NAME|FILE", "a record of `redline hardware`, or a profile", required=True)
    prompt: int = value("N", "prompt tokens", required=True, read=size)
    output_tokens: int = value("N", "output tokens", required=True, read=size)
    gpus: int | None = value("N", "number of GPUs to fill with replicas (default: one replica)", read=positive)
    tp: tuple[int, ...] = value(
        "N", f"GPUs per replica (default: {','.join(map(str, SIZES))})", default=SIZES, read=several
    )
    precision: tuple[str, ...] = value(
        "TYPES", "weight formats, such as bf16,fp8 (default: bf16)", default=("bf16",), read=names
    )
    cache: str = value("TYPE", "KV cache format: bf16 (default) or fp8", default="bf16")
    engine: str = value("NAME", f"serving engine; an unknown name lists all (default: {ENGINE})", default=ENGINE)
    measured: str | None = value("RUN", "a watched run of an engine on this machine, instead of --engine")
    concurrency: tuple[int, ...] = value(
        "N", f"concurrent requests per replica (default: {LOADS[0]} to {LOADS[-1]})", default=LOADS, read=several
    )
    max_ttft_s: float | None = value(
        "TIME", "limit of the mean time to first token, such as 500ms", "--max-ttft", read=time_s
    )
    max_tpot_s: float | None = value(
        "TIME", "limit of the mean time per output token, such as 50ms", "--max-tpot", read=time_s
    )
    price: float | None = value("AMOUNT", "price per GPU-hour, in any currency", read=above_zero)
    emit: str | None = _emit(ENGINES, "ENGINE", "the best way to serve as the engine's command")
    output: tuple[str, ...] = _outputs(_SERVE_FORMS)


class PlanValidateOptions(PlanOutput):
    """Compare plans with the published measurements that come with Redline."""

    verb = "plan validate"
    example = "redline plan validate -o errors.html"


# --- running ----------------------------------------------------------------------------------------------------------


def _train(options: PlanTrainOptions) -> int:
    _refuse_early(options, _TRAIN_FORMS, options.emit, FRAMEWORKS)
    from redline import plan_training

    asked = {**arguments_for(plan_training, options), "batch": _sequences(options)}
    with progress(options) as tell:
        planned = plan_training(**asked, progress=tell)
    _deliver_reports(options, planned, planned.launch_script(options.emit) if options.emit else "")
    for name in options.output:
        if name.endswith(TRACE):
            planned.save_trace(name, force=options.force)
            if not options.quiet:
                point_to(f"redline diagnose {quoted([name])}")
    return 0


def _sequences(options: PlanTrainOptions) -> int:
    from math import log2

    if options.batch is not None:
        return options.batch
    if options.sequence is None or options.batch_tokens is None:
        raise UsageError("plan train: --batch-tokens needs --sequence; a module of your own has samples: give --batch")
    sequences, rest = divmod(options.batch_tokens, options.sequence)
    if rest or not sequences:
        near = 1 << max(0, round(log2(max(sequences, 1))))  # copies divide a power of two best
        raise UsageError(
            f"plan train: --batch-tokens {options.batch_tokens:,} is no multiple of --sequence {options.sequence:,}\n"
            f"give the sequences themselves, such as --batch {near} ({near * options.sequence:,} tokens)"
        )
    return sequences


def _serve(options: PlanServeOptions) -> int:
    _refuse_early(options, _SERVE_FORMS, options.emit, ENGINES)
    from redline import plan_serving

    planned = plan_serving(**arguments_for(plan_serving, options))
    _deliver_reports(options, planned, planned.launch_script(options.emit) if options.emit else "")
    return 0


def _validate(options: PlanValidateOptions) -> int:
    _refuse_early(options, REPORTS)
    from redline import validate_plans

    _deliver_reports(options, validate_plans())
    return 0


# --- output -----------------------------------------------------------------------------------------------------------


def _refuse_early(
    options: PlanOutput, forms: Mapping[str, str], emit: str | None = None, names: Sequence[str] = ()
) -> None:
    """What cannot be written is said before anything is computed."""
    from redline.artifacts import refuse_unless_writable
    from redline.storage import path_of

    language(options)
    refuse_other_endings(options.verb, options.output, tuple(forms))
    for name in options.output:
        refuse_unless_writable(path_of(name), force=options.force)
    if emit and options.json:
        raise UsageError(f"{options.verb}: --emit prints a launch script, --json figures: give -o FILE.json for both")
    if not emit and any(name.endswith(SCRIPT) for name in options.output):
        raise UsageError(f"{options.verb}: -o FILE{SCRIPT} needs --emit, with one of: {', '.join(names)}")


def _deliver_reports(options: PlanOutput, planned: ShownPlan, script: str = "") -> None:
    """One on stdout, and those that were asked for in files. A script is printed instead of the plan."""
    from pathlib import Path

    from redline.report.language import speaking

    with speaking(language(options)):
        with for_stdout():
            show(script or planned.rendered("json" if options.json else "text", unicode=speaks_unicode()))
        for name in options.output:
            ending = Path(name).suffix
            if ending in FORMATS or ending == SCRIPT:
                text = script if ending == SCRIPT else planned.rendered(FORMATS[ending])
                deliver(text, name, force=options.force)
            if ending == ".html" and not options.quiet:
                point_to(f"open {quoted([name])} in a browser")


VERB = VerbKinds(
    "plan",
    "Predict what a job should cost before it runs, with an interval.",
    {
        "train": (
            "a training job: time, memory and cost of a step, the best layout, the whole job",
            Verb(PlanTrainOptions, _train),
        ),
        "serve": (
            "serving: time to the first token, time per token, throughput, by size and precision",
            Verb(PlanServeOptions, _serve),
        ),
        "validate": ("how well plans predict published measurements", Verb(PlanValidateOptions, _validate)),
    },
    PlanTrainOptions.example,
)
