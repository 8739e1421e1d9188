"""The fsspec file system of a URL: one per store, process and purpose; what is not installed is named in one line."""

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from redline.errors import StorageError
from redline.storage.known_objects import USER_APART, access_of, authority_of, with_access

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_EXTRA = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "hdfs": "hdfs"}
_PACKAGE = {"s3": "s3fs", "gcs": "gcsfs", "hdfs": "pyarrow"}
CONNECT_S, READ_S = 10, 60  # without an answer or a byte
UPLOAD_TRIES = 5  # of each part, by the library: only it can repeat a part


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
        from redline.storage.retries import reason_of

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
