"""Paths in a text: those of packages stay readable without where they are installed, of others only the file's name."""

import re
from collections.abc import Iterator

from redline.report.redaction.private import Mark, Private

_PART = r"[^\s/\\:;,\"'<>|*?()\[\]{}=&]+"
_ABSOLUTE = re.compile(
    rf"""
    ^(?:/|~[\w.-]*/|[A-Za-z]:[\\/]|\\\\)[^\n]*?\.pyx?(?=\(\d+\))      # a call as the profiler names it, blanks and all
    | \b(?:s3a?|gc?s|az|abfss?|wasbs?|(?:web)?hdfs|memory|file|ssh|sftp|nfs|oss|obs|dbfs):///?{_PART}(?:[/\\:]{_PART})*[/\\]?
    | (?<![\w.~<>/\\)\]-])(?:~[\w.-]*)?/(?!/){_PART}(?:/{_PART})+/?
    | (?<![\w.~<>/\\)\]-])~[\w.-]*/{_PART}/?
    | (?<![A-Za-z0-9])[A-Za-z]:[\\/](?:{_PART}[\\/])*{_PART}
    | (?<![\w\\])\\\\{_PART}\\(?:{_PART}\\)*{_PART}
    """,
    re.VERBOSE,
)
_IN_PACKAGES = re.compile(r"^.*/(?:site-packages|dist-packages)/(?=[^/])")
_IN_PYTHON = re.compile(r"^.*/lib(?:64)?/python3(?:\.\d+)?/(?=[^/])")
_HOME = re.compile(r"(?:^|[\s/\\])(?:home|[Uu]sers)[/\\]([^\s/\\:<>()\"']+)")


def without_paths(text: str, mark: Mark) -> str:
    return _ABSOLUTE.sub(lambda match: _shortened(match[0], mark), text)


def _shortened(path: str, mark: Mark) -> str:
    plain = path.replace("\\", "/")
    for installed in (_IN_PACKAGES, _IN_PYTHON):
        inside = installed.sub("", plain)
        if inside != plain:
            mark(Private.FOLDER, plain.removesuffix(inside))
            return inside
    folder, _, name = plain.rpartition("/")
    return f"{mark(Private.FOLDER, folder)}/{name}"


def owners(text: str) -> Iterator[str]:
    """Whose home folders a text names."""
    return (match[1] for match in _HOME.finditer(text))
