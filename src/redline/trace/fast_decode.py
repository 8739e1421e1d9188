"""Batches of events that need nothing but decoding, as nearly all do: decoded as a whole, at full speed."""

import msgspec
import numpy as np

from redline.trace.schema import CATEGORY_KEY, DURATION_KEY, Event
from redline.trace.times import NO_TIME, Decoded, with_times

UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ArithmeticError)
_LAST_BYTES = 256  # in which the last event of a batch ends
_FAST = msgspec.json.Decoder(list[Event])


def decoded_if_sound(text: bytes) -> Decoded | None:
    """The events of a batch that needs nothing but decoding, else None; of any batch, whatever came before it."""
    try:
        decoded = decoded_fast(as_list(text))
    except UNREADABLE:
        return None
    return None if decoded is None or repeats_keys(text, decoded) else decoded


def decoded_fast(text: bytes) -> Decoded | None:
    """The events of a JSON list; None where doubles cannot hold their times."""
    return with_times(_FAST.decode(text), text)


def as_list(text: bytes) -> bytes:
    """Events as one JSON list, without the comma that may follow the last; copied once."""
    end = text[-_LAST_BYTES:].rstrip()
    if not end:
        end, text = text.rstrip(), b""
    rest = len(text) - min(len(text), _LAST_BYTES)
    return b"".join((b"[", memoryview(text)[:rest], end.removesuffix(b","), b"]"))


def repeats_keys(text: bytes, decoded: Decoded) -> bool:
    """Whether there are more categories or durations in the text than events that have one.

    A name that was not escaped can bring its own fields along, so that an annotation poses as a kernel.
    """
    categories = len(decoded.events) - [event.cat for event in decoded.events].count("")
    durations = int(np.count_nonzero(decoded.dur_ns != NO_TIME))
    return text.count(CATEGORY_KEY) > categories or text.count(DURATION_KEY) > durations
