"""What a trace says of its job and machine, read with distrust: any field may be missing or of the wrong type."""

import json
from collections.abc import Mapping
from typing import Any

from redline.artifacts.masking import masked
from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import encodable
from redline.timeline.timeline import NONE, Device, Metadata, Timeline, TimelineOrigin
from redline.trace import schema
from redline.trace.rank_claim import LARGEST_JOB, is_rank

_LATEST_NS = 2**62  # the year 2116
_MOST_CHANGES, _CHANGE_LETTERS = 64, 500  # of what a file says: a digest has to hold it


def metadata_of(raw: Mapping[str, Any], log: ProblemLog) -> Metadata:
    info = schema.distributed_info(raw)
    versions = {key: _text(value) for key in schema.VERSION_KEYS for value in (raw.get(key, info.get(key)),) if value}
    return Metadata(
        devices=_devices(raw.get(schema.DEVICES_KEY)),
        backend=_text(info.get(schema.BACKEND_KEY)),
        world_size=min(max(0, as_int(info.get(schema.WORLD_SIZE_KEY), 0)), LARGEST_JOB),
        group_ranks=_groups(info.get(schema.GROUPS_KEY), log),
        versions=versions,
        recorded=tuple(word for key, word in schema.RECORDED_FLAGS.items() if raw.get(key)),
        host=_text(raw.get(schema.HOST_KEY)),
        synthetic=_text(raw.get(schema.SYNTHETIC_KEY)),
        changes=_changes(raw.get(schema.CHANGES_KEY)),
    )


def written_metadata(metadata: Metadata) -> dict[str, Any]:
    """The metadata as a trace states it, of several ranks together: so without a rank."""
    devices = [
        {
            "id": device.id,
            "name": device.name,
            schema.DEVICE_MEMORY_KEY: device.memory_bytes,
            schema.DEVICE_SMS_KEY: device.multiprocessors,
        }
        for device in metadata.devices
    ]
    flags = {key: 1 for key, word in schema.RECORDED_FLAGS.items() if word in metadata.recorded}
    info = {schema.BACKEND_KEY: metadata.backend, schema.WORLD_SIZE_KEY: metadata.world_size}
    synthetic = {schema.SYNTHETIC_KEY: metadata.synthetic} if metadata.synthetic else {}
    changes = {schema.CHANGES_KEY: list(metadata.changes)} if metadata.changes else {}
    return {
        **synthetic,
        **changes,
        schema.DEVICES_KEY: devices,
        schema.DISTRIBUTED_KEY: info if metadata.world_size else {},
        **metadata.versions,
        **flags,
    }


def written_rank_metadata(timeline: Timeline) -> dict[str, Any]:
    """The same of one rank alone, with what is its own: its number, its host, its groups."""
    metadata = timeline.metadata
    record = written_metadata(metadata)
    if metadata.host:
        record[schema.HOST_KEY] = metadata.host
    if record[schema.DISTRIBUTED_KEY]:
        groups = [
            {schema.GROUP_NAME_KEY: name, schema.GROUP_RANKS_KEY: list(ranks)}
            for name, ranks in metadata.group_ranks.items()
        ]
        record[schema.DISTRIBUTED_KEY] |= {schema.RANK_KEY: timeline.rank, schema.GROUPS_KEY: groups}
    return record


def stated_rank(raw: Mapping[str, Any]) -> int:
    """The rank that the metadata states, -1 if it states none."""
    rank = as_int(schema.distributed_info(raw).get(schema.RANK_KEY), NONE)
    return rank if is_rank(rank) else NONE


def stated_origin(raw: Mapping[str, Any]) -> TimelineOrigin:
    """Where the timelines come from: measured, unless a file of ours says otherwise."""
    stated = raw.get(schema.ORIGIN_KEY)
    return TimelineOrigin(stated) if stated in tuple(TimelineOrigin) else TimelineOrigin.MEASURED


def base_time_ns(raw: Mapping[str, Any]) -> int:
    """Unix time to which every time stamp of the file is to be added."""
    base_ns = as_int(raw.get(schema.BASE_TIME_KEY), 0)
    return base_ns if 0 <= base_ns < _LATEST_NS else 0


def as_int(value: Any, otherwise: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return otherwise
    try:
        number = int(value)
    except ValueError:
        return otherwise
    return number if abs(number) < 2**63 else otherwise


def _changes(stated: Any) -> tuple[str, ...]:
    if not isinstance(stated, list):
        return ()
    return tuple(text for change in stated[:_MOST_CHANGES] if (text := _text(change)[:_CHANGE_LETTERS]))


def _text(value: Any) -> str:
    """What a field says, "" where it says nothing; half of a surrogate pair cannot be written anywhere."""
    return masked(encodable(str(value))) if value else ""


def _devices(properties: Any) -> tuple[Device, ...]:
    if not isinstance(properties, list):
        return ()
    return tuple(
        Device(
            id=as_int(device.get("id"), index),
            name=_text(device.get("name")),
            memory_bytes=as_int(device.get(schema.DEVICE_MEMORY_KEY), 0),
            multiprocessors=as_int(device.get(schema.DEVICE_SMS_KEY), 0),
        )
        for index, device in enumerate(properties)
        if isinstance(device, dict)
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
    for group in config:
        ranks = group.get(schema.GROUP_RANKS_KEY) if isinstance(group, dict) else None
        if isinstance(ranks, list):
            groups[_text(group.get(schema.GROUP_NAME_KEY))] = tuple(as_int(rank, NONE) for rank in ranks)
    return groups
