"""URLs taken apart: what may be shown of them, and what gives access, which is kept beside and never shown."""

import re
from pathlib import Path
from urllib.parse import unquote

from redline.artifacts.masking import masked
from redline.errors import UsageError
from redline.values import dataclass

_PARTS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<authority>[^/]*)(?P<rest>.*)", re.DOTALL)
_WITH_QUERIES = ("http", "https")  # elsewhere a question mark is a letter of a key, or of a pattern
_QUERY = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]+://[^\s?'\"<>]*)\?[^\s'\"<>]+")
_USER = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]+://)[^\s/@'\"]{1,400}@")


@dataclass(frozen=True, kw_only=True)
class StoreUrl:
    """A URL without what gives access, and that."""

    scheme: str
    authority: str  # bucket, or host and port; may be empty
    path: str  # begins with a slash, or is empty
    user: str = ""  # and password
    query: str = ""

    @property
    def public(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def parsed(text: str) -> StoreUrl:
    match = _PARTS.fullmatch(text)
    if match is None:
        raise UsageError(f"{public_text(text)} is no URL; it has the form s3://bucket/folder")
    scheme = match["scheme"].lower()
    user, _, authority = match["authority"].rpartition("@")
    path, query = match["rest"], ""
    if scheme in _WITH_QUERIES:
        path, _, query = path.partition("?")
    return StoreUrl(scheme=scheme, authority=authority, path=path, user=user, query=query)


def public_text(text: str) -> str:
    """A text with each URL in it shortened by users, passwords and queries, and with other secrets masked."""
    return masked(_USER.sub(r"\1", _QUERY.sub(r"\1", text)))


def local_of_file_url(text: str) -> Path:
    """A file:// URL names a file of this machine, and is read as such."""
    match = _PARTS.fullmatch(text)
    if match is None or match["authority"] not in ("", "localhost") or not match["rest"]:
        raise UsageError(f"{public_text(text)} names no file of this machine; write it as file:///folder/file")
    return Path(unquote(match["rest"]))
