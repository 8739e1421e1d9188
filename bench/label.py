"""What a case is labelled with: its cause, the rank at fault, and in which steps it shows."""

import re
from dataclasses import dataclass

AREAS = ("input", "host", "kernels", "communication", "memory", "serving", "machine")
ONE_CORE_AREAS = ("host", "kernels", "memory", "serving")  # what their jobs do, one thread does
KINDS = ("training", "generation", "inference")
STYLES = ("plain", "compiled", "hf", "diffusers", "accelerate", "lightning", "ddp", "fsdp2", "tp", "pp", "gpu")
_PERIOD = re.compile(r"every (\d+) steps")


@dataclass(frozen=True, kw_only=True)
class Label:
    """What is wrong in the flawed twin, as an expert would say it."""

    cause: str  # area/cause; bench/causes.toml says which findings name it
    says: tuple[str, ...]  # at least one of these stands in the title, cause, fix or evidence of such a finding
    ranks: int = 1
    rank: int | None = None  # the one at fault
    pattern: str = "every step"  # or "every N steps", "first steps", "some steps"
    kind: str = "training"
    style: str = "plain"
    cores: int | None = None  # that the job may use; None: what its area needs

    def __post_init__(self) -> None:
        if self.cause.partition("/")[0] not in AREAS or self.kind not in KINDS or self.style not in STYLES:
            raise ValueError(f"label of {self.cause!r}: unknown area, kind {self.kind!r} or style {self.style!r}")
        if self.pattern not in ("every step", "first steps", "some steps") and not _PERIOD.fullmatch(self.pattern):
            raise ValueError(f"label of {self.cause!r}: unknown pattern {self.pattern!r}")

    @property
    def cores_needed(self) -> int | None:
        """One for a job of one thread, or it would be true that cores are free; None for all there are."""
        area = self.cause.partition("/")[0]
        is_single = self.ranks == 1 and area in ONE_CORE_AREAS and "thread" not in self.cause
        return 1 if self.cores is None and is_single else self.cores

    @property
    def period(self) -> int:
        """In how many steps the cause shows once; 1 where it shows in every step, or nobody knows."""
        match = _PERIOD.fullmatch(self.pattern)
        return int(match[1]) if match else 1
