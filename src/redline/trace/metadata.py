"""What a trace says of its job and machine, read with distrust: any field may be missing or of the wrong type."""

import json
from collections.abc import Mapping
from typing import Any

from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.timeline import NONE, Device, Metadata
from redline.trace import schema


def metadata_of(raw: Mapping[str, Any], log: ProblemLog) -> Metadata:
    info = schema.distributed_info(raw)
    versions = {key: str(value) for key in schema.VERSION_KEYS for value in (raw.get(key, info.get(key)),) if value}
    return Metadata(
        devices=_devices(raw.get("deviceProperties")),
        backend=str(info.get("backend", "")),
        world_size=max(0, as_int(info.get("world_size"), 0)),
        group_ranks=_groups(info.get("pg_config"), log),
        versions=versions,
        recorded=tuple(word for key, word in schema.RECORDED_FLAGS.items() if raw.get(key)),
        host=str(raw.get("host_name", "")),
        synthetic=str(raw.get(schema.SYNTHETIC_KEY, "")),
    )


def stated_rank(raw: Mapping[str, Any]) -> int:
    """The rank that the metadata states, -1 if it states none."""
    return max(NONE, as_int(schema.distributed_info(raw).get("rank"), NONE))


def base_time_ns(raw: Mapping[str, Any]) -> int:
    """Unix time to which every time stamp of the file is to be added."""
    return max(0, as_int(raw.get(schema.BASE_TIME_KEY), 0))


def as_int(value: Any, otherwise: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return otherwise
    try:
        number = int(value)
    except ValueError:
        return otherwise
    return number if abs(number) < 2**63 else otherwise


def _devices(properties: Any) -> tuple[Device, ...]:
    if not isinstance(properties, list):
        return ()
    return tuple(
        Device(
            id=as_int(one.get("id"), index),
            name=str(one.get("name", "")),
            memory_bytes=as_int(one.get("totalGlobalMem"), 0),
            multiprocessors=as_int(one.get("numSms"), 0),
        )
        for index, one in enumerate(properties)
        if isinstance(one, dict)
    )


def _groups(config: Any, log: ProblemLog) -> dict[str, tuple[int, ...]]:
    """Ranks by process-group name. Above 128 ranks the profiler has cut this text off."""
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            log.add(Reason.TRUNCATED_GROUP_CONFIG, example=config[:80])
            return {}
    if not isinstance(config, list):
        return {}
    groups = {}
    for one in config:
        ranks = one.get("ranks") if isinstance(one, dict) else None
        if isinstance(ranks, list):
            groups[str(one.get("pg_name", ""))] = tuple(as_int(rank, NONE) for rank in ranks)
    return groups
