"""One part of the files of a job, for a task of Slurm, torchrun or Kubernetes; all tasks name the same files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from redline.errors import UsageError
from redline.values import dataclass

AUTO = "auto"
_FORMS = "give I/N, such as 0/8 for the first of eight parts, or auto, or auto/N"


@dataclass(frozen=True, kw_only=True)
class Shard:
    """Part `index` of `count`, counted from 0: every `count`-th file, beginning with this one."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            most = f": of {self.count} parts the last is {self.count - 1}/{self.count}" if self.count > 0 else ""
            raise UsageError(f"`shard=...` {self} does not exist{most}; parts are counted from 0")

    def of(self, files: Sequence[Path]) -> dict[int, Path]:
        """The files of this part, by their place among all."""
        return {place: files[place] for place in range(self.index, len(files), self.count)}

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def shard_from(text: str, environment: Mapping[str, str]) -> Shard:
    """The part that `I/N` names, or with `auto` the one that the launcher of this process says."""
    index, slash, count = text.partition("/")
    if slash and not _is_number(count):
        raise UsageError(f"`shard=...` is {text!r:.40}; {_FORMS}")
    if index == AUTO:
        return _told(environment, int(count) if slash else None)
    if not slash or not _is_number(index):
        raise UsageError(f"`shard=...` is {text!r:.40}; {_FORMS}")
    return Shard(index=int(index), count=int(count))


def _told(environment: Mapping[str, str], count: int | None) -> Shard:
    """UsageError unless exactly one launcher says which part this is."""
    told = {
        name: shard
        for name, shard in (
            ("SLURM_ARRAY_TASK_ID", _of_slurm_array(environment, count)),
            ("RANK", _of_rank(environment, count)),
            ("JOB_COMPLETION_INDEX", _of_kubernetes(environment, count)),
        )
        if shard is not None
    }
    if not told:
        raise UsageError(
            f"`shard=...` {AUTO}: none of SLURM_ARRAY_TASK_ID, RANK and JOB_COMPLETION_INDEX is set, so this is no "
            "task of an array; give I/N, such as 0/8"
        )
    if len(set(told.values())) > 1:
        names = " and ".join(told)
        raise UsageError(f"`shard=...` {AUTO}: {names} are set, and say different parts; give I/N, such as 0/8")
    return next(iter(told.values()))


def _of_slurm_array(environment: Mapping[str, str], count: int | None) -> Shard | None:
    """Numbers of an array may begin anywhere and have gaps of one size: `--array=1-15:2` has eight parts."""
    task = _number(environment, "SLURM_ARRAY_TASK_ID")
    if task is None:
        return None
    if count is not None:  # as of a task that is run again alone, with `--array=3`
        return Shard(index=task, count=count)
    first, last, tasks = (_number(environment, f"SLURM_ARRAY_TASK_{name}") for name in ("MIN", "MAX", "COUNT"))
    step = _number(environment, "SLURM_ARRAY_TASK_STEP") or 1
    if tasks is None or first is None or last is None:
        raise UsageError(f"`shard=...` {AUTO}: SLURM_ARRAY_TASK_COUNT, _MIN or _MAX is not set; give {AUTO}/N")
    if (last - first) // step + 1 != tasks:
        raise UsageError(
            f"`shard=...` {AUTO}: this array has {tasks} tasks between {first} and {last}; give I/N, or make it "
            f"0-{tasks - 1}"
        )
    return Shard(index=(task - first) // step, count=tasks)


def _of_rank(environment: Mapping[str, str], count: int | None) -> Shard | None:
    rank, ranks = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    if rank is None:
        return None
    if count is None and ranks is None:
        raise UsageError(f"`shard=...` {AUTO}: RANK is set and WORLD_SIZE is not; give {AUTO}/N")
    return Shard(index=rank, count=count or ranks or 0)


def _of_kubernetes(environment: Mapping[str, str], count: int | None) -> Shard | None:
    index = _number(environment, "JOB_COMPLETION_INDEX")
    if index is None:
        return None
    if count is None:
        raise UsageError(
            f"`shard=...` {AUTO}: Kubernetes does not say how many parts there are; give {AUTO}/N with its completions"
        )
    return Shard(index=index, count=count)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if _is_number(text) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9
