"""The published measurements of serving, as columns: which model, format, deployment and traffic each row was.

What a row leaves out is filled in from `serving_facts.json`, which says for every name what it is. A row that cannot be
expressed is counted with its reason, never dropped in silence.
"""

import csv
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.plan.rows import DATA
from redline.hardware.catalogue import record
from redline.model.huggingface import describe, known_model
from redline.model.model import Column, Model
from redline.plan.serve.setup import (
    AcceleratorPeaks,
    Constants,
    Deployment,
    Format,
    Setup,
    Traffic,
    device_of,
    format_named,
)

Row = Mapping[str, str]
METRICS = {"ttft_s": ("ttft_ms", 1e-3), "tpot_s": ("tpot_ms", 1e-3), "latency_s": ("e2e_latency_s", 1.0)}
_SECTION_MACHINE = re.compile(r"\((?:MoE, )?(\d)x (\w+), TP=(\d)\)")
_FORMATS = {"int8-wo": "int8", "int4-g32-wo": "int4", "mxfp4/fp8": "mxfp4"}


@dataclass(frozen=True, kw_only=True)
class ServingRows:
    """Rows that can be expressed, in columns."""

    ids: tuple[str, ...]
    engine: tuple[str, ...]
    gpu: tuple[str, ...]
    """The record of the catalogue."""
    names: tuple[str, ...]
    """Of models, as published."""
    model: Model
    form: Format
    where: Deployment
    device: AcceleratorPeaks
    traffic: Traffic
    measured: Mapping[str, Column]
    """ttft_s, tpot_s, latency_s, tokens_per_s; NaN where a row has none, or one that is not of text alone."""
    speculative: Column
    """1 where a draft model guesses tokens ahead: fewer steps than tokens."""

    def setup(self, engine: Constants) -> Setup:
        return Setup(model=self.model, form=self.form, where=self.where, device=self.device, engine=engine)

    @property
    def held_out(self) -> Column:
        return np.array([int(row_id[1:]) % 2 == 1 for row_id in self.ids], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Excluded:
    reason: str
    ids: tuple[str, ...]


def load_serving() -> tuple[ServingRows, tuple[Excluded, ...]]:
    """All rows: those that can be expressed, and the others by reason."""
    text = gzip.decompress(DATA.joinpath("inference_runs.csv.gz").read_bytes()).decode("utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    reasons: dict[str, list[str]] = {}
    kept: list[_Expressed] = []
    for row in rows:
        expressed = _express(row)
        if isinstance(expressed, str):
            reasons.setdefault(expressed, []).append(row["id"])
        else:
            kept.append(expressed)
    return _columns(kept), tuple(Excluded(reason=reason, ids=tuple(ids)) for reason, ids in reasons.items())


def rows_where(rows: ServingRows, chosen: NDArray[np.bool_]) -> ServingRows:
    """Those rows alone."""
    at = np.flatnonzero(chosen)

    def of(value: Any) -> Any:
        taken = {field.name: getattr(value, field.name)[at] for field in fields(value) if field.name != "name"}
        return replace(value, **taken)

    taken: dict[str, Any] = {
        **{name: tuple(getattr(rows, name)[i] for i in at) for name in ("ids", "engine", "gpu", "names")},
        **{name: of(getattr(rows, name)) for name in ("model", "form", "where", "device", "traffic")},
    }
    return ServingRows(
        **taken,
        measured={name: values[at] for name, values in rows.measured.items()},
        speculative=rows.speculative[at],
    )


@cache
def facts() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DATA.joinpath("serving_facts.json").read_text(encoding="utf-8"))
    return loaded


# --- one row ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Expressed:
    id: str
    engine: str
    gpu: str
    name: str
    model: Model
    form: Format
    where: Deployment
    device: AcceleratorPeaks
    traffic: Traffic
    measured: Mapping[str, float]
    speculative: float


def _express(row: Row) -> _Expressed | str:
    """The row in the planner's words, or why not."""
    known = facts()
    reason = known["excluded_rows"].get(row["id"]) or known["excluded_names"].get(row["model"])
    if reason:
        return str(reason)
    if not float(row["in_len"] or 0) or not float(row["out_len"] or 0):
        return "lengths are not given"
    about = known["names"].get(row["model"], {"model": row["model"].lower()})
    gpu, devices = _machine(row)
    engine = known["engines"][row["engine"]]
    return _Expressed(
        id=row["id"],
        engine=engine,
        gpu=gpu,
        name=row["model"],
        model=_model(about["model"]),
        form=_form(row, about, gpu),
        where=_where(row, engine, devices),
        device=_device(gpu),
        traffic=_traffic(row, engine),
        measured=_measured(row, with_images=row["id"] in known["with_images"]),
        speculative=float("speculative" in row["notes"] or row["model"] in known["speculative_names"]),
    )


@cache
def _model(name: str) -> Model:
    """One of the known models, or one that only these measurements are about."""
    described = facts()["models"].get(name)
    return known_model(name) if described is None else replace(describe(**described), name=name)


@cache
def _device(gpu: str) -> AcceleratorPeaks:
    machine = record(gpu)
    assert machine is not None, gpu
    return device_of(machine)


def _machine(row: Row) -> tuple[str, int]:
    """Some pages have a machine per section, in its title; the row then has that of the page."""
    gpus = facts()["gpus"]
    section = _SECTION_MACHINE.search(row["source_ref"])
    if section:
        return gpus[section[2]], int(section[3])
    return gpus[facts()["machines_of_rows"].get(row["id"], row["gpu"])], int(row["gpus"])


def _form(row: Row, about: Mapping[str, str], gpu: str) -> Format:
    name = about.get("format") or _FORMATS.get(row["precision"], row["precision"])
    if row["model"].startswith("DeepSeek") and name == "nvfp4":
        name = "nvfp4-experts"
    # The page leaves the cache of GPT-OSS on Hopper as it is: in 16 bits.
    narrow = row["kv_precision"] == "fp8" and row["precision"] != "mxfp4/fp8"
    form = format_named(name, "fp8" if narrow else "bf16")
    # Blackwell multiplies 4-bit weights by 8-bit activations; earlier chips turn the weights into 16 bits first.
    return replace(form, compute=1) if name == "mxfp4" and "B" in gpu else form


def _where(row: Row, engine: str, devices: int) -> Deployment:
    # The pages turn data parallel attention on for all mixtures of experts, and name it in the layout in later ones.
    spread = "DEP" in row["notes"].partition("(")[0] or (engine == "TensorRT-LLM" and row["arch"].startswith("moe"))
    return Deployment(
        tp=devices,
        ep=float(row["ep"] or 1),
        attention_dp=devices if spread else 1,
        head_tp=0 if engine == "gpt-fast" else 1,  # its tensor parallelism leaves the last matrix whole
    )


def _traffic(row: Row, engine: str) -> Traffic:
    asked = row["batch_or_concurrency"]
    concurrency = float(asked) if asked.replace(".", "").isdigit() else np.inf
    return Traffic(
        concurrency=concurrency,
        prompt=float(row["in_len"]),
        output=float(row["out_len"]),
        requests=_requests(row, engine, concurrency),
    )


def _requests(row: Row, engine: str, concurrency: float) -> float:
    """How many were sent in all, as the pages say; 0 where they do not."""
    if engine == "TensorRT-LLM":
        lengths = f"{float(row['in_len']):.0f}/{float(row['out_len']):.0f}"
        return float(facts()["requests_of_lengths"][lengths])
    if engine == "SGLang":
        # 5 for each that may be in flight where lengths are random, 10 where they are those of conversations.
        return concurrency * (10 if concurrency == 1 or float(row["in_len"]) < 350 else 5)
    return float(row["batch_or_concurrency"]) if row["batch_or_concurrency"].isdigit() else 0.0


def _measured(row: Row, *, with_images: bool) -> dict[str, float]:
    values = {name: float(row[key] or "nan") * unit for name, (key, unit) in METRICS.items()}
    # Where the table has a latency, its tokens per second were made from it.
    derived = row["metric_kind"] == "offline latency"
    values["tokens_per_s"] = float("nan" if derived else row["out_tok_s"] or "nan")
    if with_images:
        values |= {"ttft_s": float("nan"), "latency_s": float("nan"), "tokens_per_s": float("nan")}
    return {name: value if value > 0 else float("nan") for name, value in values.items()}


# --- columns ----------------------------------------------------------------------------------------------------------


def _columns(kept: Sequence[_Expressed]) -> ServingRows:
    return ServingRows(
        ids=tuple(expressed.id for expressed in kept),
        engine=tuple(expressed.engine for expressed in kept),
        gpu=tuple(expressed.gpu for expressed in kept),
        names=tuple(expressed.name for expressed in kept),
        model=Model(**_stacked([expressed.model for expressed in kept])),
        form=Format(**_stacked([expressed.form for expressed in kept])),
        where=Deployment(**_stacked([expressed.where for expressed in kept])),
        device=AcceleratorPeaks(**_stacked([expressed.device for expressed in kept])),
        traffic=Traffic(**_stacked([expressed.traffic for expressed in kept])),
        measured={
            name: np.array([expressed.measured[name] for expressed in kept]) for name in (*METRICS, "tokens_per_s")
        },
        speculative=np.array([expressed.speculative for expressed in kept]),
    )


def _stacked(values: Sequence[Any]) -> dict[str, Any]:
    names = [field.name for field in fields(values[0]) if field.name != "name"]
    return {name: np.array([getattr(value, name) for value in values], dtype=np.float64) for name in names}
