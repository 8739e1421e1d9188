"""`redline mcp` on the command line."""

from __future__ import annotations

from redline.cli.options import Options, Verb, values
from redline.errors import UsageError


class McpOptions(Options):
    """Serve inspect, diagnose, explain, compare, plan and hardware to AI agents, read-only."""

    verb = "mcp"
    example = "redline mcp --allow /shared/traces"
    allow: tuple[str, ...] = values(
        "FOLDER", "a folder that agents may read, with all below it; may be repeated (default: the current folder)"
    )


def run(options: McpOptions) -> int:
    """Until the client leaves. stdout carries the protocol only."""
    import sys

    if not _has_sdk():
        raise UsageError("mcp needs the official SDK, mcp 2.0 or later: pip install 'redline-perf[mcp]'")
    from redline.mcp.allowed_folders import allowed_folders

    folders = allowed_folders(options.allow or ["."])
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("mcp: stdin is a terminal; an MCP client starts this command and talks to it through pipes")
    from redline.mcp.server import serve

    serve(folders)


def _has_sdk() -> bool:
    """Also of a version that is not too old: what it is called changed with 2.0."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        return find_spec("mcp") is not None and int(version("mcp").partition(".")[0]) >= 2
    except (PackageNotFoundError, ValueError):
        return False


VERB = Verb(McpOptions, run)
