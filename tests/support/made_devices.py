"""Made traces of jobs on devices that nobody has written a reader for: names, processes and links are drawn by lot."""

import random
from typing import Any

WORDS = ("tensix", "npu", "vpu", "ipu", "gcu", "mlu", "wafer", "musa", "rbln", "lpu", "dcu", "tsp")
Events = list[dict[str, Any]]


def host_job(dice: random.Random, pid: int | None = None) -> Events:
    """A job on CPUs: two threads of operators under steps, and spans of another tool on a thread that works."""
    pid = dice.choice([7, 1234, 3_096_504]) if pid is None else pid
    events: Events = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "python"}}]
    for step in range(4):
        at = 1e6 + step * 1000
        events.append(_span("user_annotation", f"ProfilerStep#{step}", pid, pid, at, 990))
        for number in range(6):
            events.append(_span("cpu_op", "aten::mul", pid, pid, at + number * 150, 120, {"External id": number}))
            events.append(_span("cpu_op", "aten::add", pid, pid + 1, at + number * 150, 90))
        events.append(_span(dice.choice(["tool", "enqueue"]), "note", pid, pid, at + 5, 3))
    return events


def device_job(dice: random.Random) -> Events:
    """The same job with work on an invented device."""
    word = dice.choice(WORDS)
    pid = dice.choice([7, 1234, 3_096_504])
    events = host_job(dice, pid)
    devices: list[int | str] = [3, 250, 4_000_000_001, f"{word} 0", pid]
    device = dice.choice(devices)
    category = dice.choice([None, f"{word}_kernel", f"{word}_events", "device", "work", "hpu_op", "collective_comm"])
    calls = dice.choice([f"{word}_runtime", "privateuse1_runtime", f"{word}_api", None])
    link = dice.choice(["correlation", "arrow", "both", "none"])
    names: list[list[int | str]] = [[f"stream {lane}", 20 + lane, f"{word} queue {lane}"] for lane in range(2)]
    lanes = list(map(dice.choice, names))
    if dice.random() < 0.5:
        label = {"name": dice.choice([word.upper(), f"{word} 0", "python"])}
        events.append({"ph": "M", "name": "process_name", "pid": device, "tid": 0, "args": label})
    if device != pid and dice.random() < 0.5:
        events.append({"ph": "M", "name": "process_labels", "pid": device, "tid": 0, "args": {"labels": f"{word} 0"}})
    for number in range(24):
        at = 1e6 + number * 150 + 20
        arguments = {"correlation": number + 1} if link in ("correlation", "both") else {}
        if calls:
            events.append(_span(calls, f"{word}Submit", pid, pid, at, 10, {"correlation": number + 1}))
        lane = lanes[number % 2]
        if link in ("arrow", "both"):
            arrow = {"cat": "ac2g", "name": "ac2g", "id": number + 1}
            events.append({"ph": "s", "pid": pid, "tid": pid, "ts": at, **arrow})
            events.append({"ph": "f", "bp": "e", "pid": device, "tid": lane, "ts": at + 30, **arrow})
        events.append(_span(category, f"{word}_gemm_{number % 3}", device, lane, at + 30, 100, arguments))
    dice.shuffle(events)
    return events


def _span(
    category: str | None, name: str, pid: int | str, tid: int | str, at: float, us: float, args: Any = None
) -> dict[str, Any]:
    said = {} if category is None else {"cat": category}
    return {"ph": "X", **said, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": us, "args": args or {}}
