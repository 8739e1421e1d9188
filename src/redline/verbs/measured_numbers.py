"""A measured step as numbers, such as step=1.52s,gpus=64,batch=512,tp=8: times, the layout and the batch that ran."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from redline.errors import UsageError
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.measured.measured_step import ACCOUNTS, PARTS, MeasuredTraining
from redline.planner.train.training_choices import RECOMPUTES, SCHEDULES
from redline.units import parse_bytes, parse_count

SIZES = ("dp", "tp", "pp", "cp", "ep", "shard", "chunks", "micro_batch", "zero", "sequence_parallel", "flash", "lora")
BATCH = ("batch", "sequence", "gpus")
AMOUNTS = ("memory", "offload")
TIMES = ("step", *ACCOUNTS, *PARTS)
NAMES: Mapping[str, Mapping[str, int]] = {"recompute": RECOMPUTES, "schedule": SCHEDULES}
KNOWN = (*TIMES, *BATCH, *SIZES, *NAMES, *AMOUNTS)


def parse_measured(text: str) -> dict[str, float]:
    """step=1.52s,tp=8,batch=512,recompute=full: times in seconds, choices as numbers. UsageError where it is none."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        name = name.replace("-", "_")
        if not equals or name not in KNOWN:
            raise UsageError(
                f"measured: {part.strip()!r} is not NAME=VALUE of a measured step\nthere are: {', '.join(KNOWN)}"
            )
        try:
            found[name] = _number(name, value)
        except (ValueError, KeyError) as error:
            raise UsageError(f"measured: {name}={value} makes no sense; {_example(name)}") from error
    return found


def is_numbers(text: str) -> bool:
    return text.partition("=")[0].strip().replace("-", "_") in KNOWN


def _number(name: str, value: str) -> float:
    if name in TIMES:
        number = _seconds(value)
    elif name in NAMES:
        return float(NAMES[name][value])
    elif name == "memory":
        number = float(parse_bytes(value))
    else:
        number = float(value) if name == "offload" else float(parse_count(value))
    if not (np.isfinite(number) and number >= 0) or (number == 0 and name in ("step", "memory", *BATCH)):
        raise ValueError(value)
    return number


def _seconds(text: str) -> float:
    for suffix, factor in (("ms", 1e-3), ("us", 1e-6), ("s", 1.0)):
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    return float(text)


def _example(name: str) -> str:
    if name in NAMES:
        return f"there are: {', '.join(NAMES[name])}"
    return "give a time such as 1.52s or 890ms" if name in TIMES else "give a number"


def from_numbers(told: Mapping[str, float], sequence: int) -> MeasuredTraining:
    missing = [name for name in ("step", "batch") if name not in told]
    layout, devices = layout_of(told)
    if "micro_batch" not in told and told.get("batch") != layout.dp:
        missing.append("micro_batch")
    if missing:
        raise UsageError(
            f"measured: {', '.join(missing)} missing; give such as step=1.52s,gpus=64,batch=512,micro_batch=1,tp=8"
        )
    return checked(
        MeasuredTraining(
            batch=Batch(sequence=int(told.get("sequence", sequence)), sequences=int(told["batch"])),
            layout=layout,
            devices=devices,
            step_s=told["step"],
            accounts={name: told[name] for name in TIMES[1:] if name in told},
            memory_bytes=told.get("memory", 0.0),
        )
    )


def layout_of(told: Mapping[str, float], devices: int = 0) -> tuple[Layout, int]:
    """What is not told is as frameworks have it; copies are what is left of the devices."""
    parts = int(np.prod([told.get(name, 1.0) for name in ("tp", "pp", "cp")]))
    devices = devices or int(told.get("gpus", told.get("dp", 1) * parts))
    copies = int(told.get("dp", max(devices // parts, 1)))
    if copies * parts != devices:
        raise UsageError(
            f"measured: dp {copies} x {parts} (tp x pp x cp) are not {devices} GPUs; give the layout that ran"
        )
    chosen = {name: told[name] for name in (*SIZES, *NAMES, "offload") if name in told}
    usual = {"sequence_parallel": 1.0 if told.get("tp", 1) > 1 else 0.0}
    return Layout(**{**usual, **chosen, "dp": copies}), devices


def checked(measured: MeasuredTraining) -> MeasuredTraining:
    rounds = measured.batch.sequences / (measured.layout.dp * measured.layout.micro_batch)
    if rounds != int(rounds) or rounds < 1:
        raise UsageError(
            f"measured: a batch of {measured.batch.sequences:g} is no multiple of dp {measured.layout.dp:g} x "
            f"micro_batch {measured.layout.micro_batch:g}; give the batch of the whole job, the micro-batch of a GPU"
        )
    return measured
