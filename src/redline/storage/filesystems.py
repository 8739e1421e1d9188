"""The fsspec file system of a URL, and requests to it: repeated where a failure may pass; a failure is one line."""

import os
import random
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from redline.errors import StorageError, first_line
from redline.storage.known_objects import USER_APART, access_of, authority_of, secrets, with_access
from redline.storage.urls import public_text

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_EXTRA = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "hdfs": "hdfs"}
_PACKAGE = {"s3": "s3fs", "gcs": "gcsfs", "hdfs": "pyarrow"}
CONNECT_S, READ_S = 10, 60  # without an answer or a byte
UPLOAD_TRIES = 5  # of each part, by the library: only it can repeat a part
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


def filesystem(url: str, *, writes: bool = False) -> "AbstractFileSystem":
    """Raises StorageError where the store cannot be used at all."""
    return _filesystem(authority_of(url), writes, os.getpid())


@lru_cache(maxsize=32)
def _filesystem(authority: str, writes: bool, _process: int) -> "AbstractFileSystem":
    scheme = authority.partition(":")[0]
    try:
        import fsspec

        fsspec.get_filesystem_class(scheme)
    except ImportError:
        raise StorageError(_missing(scheme)) from None
    except ValueError:
        raise StorageError(
            f"{scheme}:// is no kind of store that fsspec knows; see docs/reference/storage.md"
        ) from None
    options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    if scheme in USER_APART:
        options |= _s3_options(authority, writes)
    try:
        store, _ = fsspec.url_to_fs(with_access(authority), **options)
    except ImportError:
        raise StorageError(_missing(scheme)) from None
    except Exception as error:  # noqa: BLE001 (libraries of stores raise what they like, and it may quote options)
        raise StorageError(f"{authority}: cannot be used: {reason_of(error)}") from None
    if scheme in USER_APART:
        store.retries = 1  # ours and botocore's are enough, and are bounded
    return store


def _s3_options(authority: str, writes: bool) -> dict[str, Any]:
    """When reading, each request is repeated by us, as what was read has to be checked; when writing, by botocore."""
    import fsspec

    known = fsspec.config.conf.get("s3", {})
    config = {
        "connect_timeout": CONNECT_S,
        "read_timeout": READ_S,
        "retries": {"total_max_attempts": UPLOAD_TRIES if writes else 1, "mode": "standard"},
        **known.get("config_kwargs", {}),
    }
    user, _, password = access_of(authority)[0].partition(":")
    access = {"key": unquote(user), "secret": unquote(password)} if user else {}
    return {"config_kwargs": config, **access}


def _missing(scheme: str) -> str:
    extra = _EXTRA.get(scheme, "s3")
    package = _PACKAGE.get(extra, "fsspec") if scheme in _EXTRA else "fsspec, and what it needs for this store"
    return f"{scheme}:// needs {package}: pip install 'redline-perf[{extra}]'"


class ShortReadError(OSError):
    """Fewer or more bytes came than were asked for."""


def tried(request: Callable[[], Result], url: str, *, tries: int = TRIES) -> Result:
    """Send the request. FileNotFoundError where the store says that there is nothing, StorageError else."""
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
    """The same request may succeed in a moment."""
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
