"""RL-D03: batches are copied to the device from pageable memory, and everything waits for the copy."""

from collections.abc import Iterator

from redline.analysis.rank.scene import Scene
from redline.analysis.rank.waits import Cause
from redline.findings.callers import site_of
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.rule import Look, Rule, Seen
from redline.findings.rules.host.small_copies import copying

LARGE_BYTES = 1_000_000


def look(scene: Scene) -> Look | None:
    writes = scene.waits.take((scene.waits.cause == Cause.WRITE) & (scene.waits.bytes > LARGE_BYTES))
    if len(writes) < len(scene.ledger.start_ns):
        return None
    return copying(scene, writes)


def explain(seen: Seen) -> Iterator[Evidence]:
    copying_ns = seen.figures["copying_ns"]
    yield Evidence(
        "{size_bytes} per step are copied to the device at {rate_bytes_per_s} while the host waits: it is blocked for "
        "{blocked_ns}, and {lost_ns} of the device's time is lost.",
        {
            "size_bytes": seen.per_step("size_bytes"),
            "rate_bytes_per_s": seen.figures["size_bytes"] / max(copying_ns, 1) * 1e9,
            "blocked_ns": seen.per_step("blocked_ns"),
            "lost_ns": seen.alone_ns,
        },
    )
    yield from site_of(seen)


RULE = Rule(
    code="RL-D03",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    look=look,
    explain=explain,
    figures=("copying_ns", "size_bytes", "blocked_ns"),
)
