"""Jobs that a verb has started end with it, also where a scheduler ends it."""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def jobs_end_with_us() -> Iterator[None]:
    """SIGTERM, as schedulers and `timeout` send it, ends what was started too."""
    import signal

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    former = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
