"""`redline mcp` on the command line."""

from __future__ import annotations

from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow",
        action="append",
        metavar="FOLDER",
        help="a folder that agents may read, with all below it; may be repeated (default: the current folder)",
    )


def run(options: argparse.Namespace) -> int:
    """Until the client leaves. stdout carries the protocol only."""
    import sys

    if not _has_sdk():
        raise UsageError("mcp needs the official SDK, mcp 2.0 or later: pip install 'redline-perf[mcp]'")
    from redline.agents.allowed_folders import allowed_folders

    folders = allowed_folders(options.allow or ["."])
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("mcp: stdin is a terminal; an MCP client starts this command and talks to it through pipes")
    from redline.agents.server import serve

    serve(folders)


def _has_sdk() -> bool:
    """Also of a version that is not too old: what it is called changed with 2.0."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        return find_spec("mcp") is not None and int(version("mcp").partition(".")[0]) >= 2
    except (PackageNotFoundError, ValueError):
        return False
