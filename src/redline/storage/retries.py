"""Requests to a store, repeated within limits where the failure may pass; what is left of a failure is one line."""

import os
import random
import time
from collections.abc import Callable
from typing import TypeVar

from redline.errors import StorageError, first_line
from redline.storage.known_objects import secrets
from redline.storage.urls import public_text

Result = TypeVar("Result")

TRIES = 8
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0  # twice as long each time, less up to half at random
_LONGEST_REASON = 200
_FINAL = (
    FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError, ImportError,
    NotImplementedError, TypeError, ValueError, AttributeError, MemoryError, StorageError,
)  # fmt: skip
_FINAL_NAMES = ("Credential", "NoRegion", "InvalidRegion", "ParamValidation", "ProfileNotFound", "InvalidURL")
_PASSING_STATUS = (408, 409, 425, 429)
_SECRET_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")


class ShortReadError(OSError):
    """Fewer or more bytes came than were asked for."""


def tried(request: Callable[[], Result], url: str, *, tries: int = TRIES) -> Result:
    """What the request gives. FileNotFoundError where the store says that there is nothing, StorageError else."""
    for number in range(1, tries + 1):
        try:
            return request()
        except FileNotFoundError:
            raise FileNotFoundError(2, "no such object", url) from None
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 (libraries of stores raise what they like)
            if number == tries or not may_pass(error):
                times = f" ({number} tries)" if number > 1 else ""
                raise StorageError(f"{url}: {reason_of(error)}{times}") from None
        pause_s = min(_FIRST_PAUSE_S * 2 ** (number - 1), _LONGEST_PAUSE_S)
        time.sleep(pause_s * random.uniform(0.5, 1))
    raise AssertionError("unreachable")


def may_pass(error: Exception) -> bool:
    """Whether the same request may succeed in a moment."""
    status = getattr(error, "status", None) or getattr(error, "code", None)
    if isinstance(status, int) and status >= 100:
        return status >= 500 or status in _PASSING_STATUS
    if any(name in type(error).__name__ for name in _FINAL_NAMES):
        return False
    return isinstance(error, TimeoutError) or not isinstance(error, _FINAL)


def reason_of(error: BaseException) -> str:
    """Why a request failed, without what gives access."""
    text = first_line(error)
    for secret in (*secrets(), *filter(None, map(os.environ.get, _SECRET_VARIABLES))):
        text = text.replace(secret, "***")
    said = public_text(text)[:_LONGEST_REASON]
    if isinstance(error, PermissionError):
        return f"access denied ({said}); check the credentials of this store"
    return said if isinstance(error, ShortReadError) else f"{type(error).__name__}: {said}"
