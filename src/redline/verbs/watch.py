"""`redline watch`: follow the windows of a long job, and say what changes against its own history."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from redline.errors import UsageError
from redline.job.find_files import RUN_DIGESTS
from redline.storage import path_of
from redline.watch.exports import RetriedExport, WindowMetrics, export_of
from redline.watch.follow import Follower, Following, UnreadWindow
from redline.watch.job_monitor import WatchedWindow


def watch(
    folders: Sequence[str | Path],
    *,
    following: Following | None = None,
    exports: Sequence[str] = (),
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[WatchedWindow | UnreadWindow]:
    """The windows in these folders as they come, in order; without end, unless it follows once.

    `exports` are such as openmetrics=FILE. `tell` is given a line when one of them begins to fail.
    """
    paths = list(map(path_of, folders))
    if not paths:
        raise UsageError("watch: no folder was given; name the folder of a run, or of its digests")
    metrics = WindowMetrics(run_name(paths[0]))
    with ExitStack() as stack:
        opened = [RetriedExport(asked.partition("=")[0], export_of(asked), tell) for asked in exports]
        for export in opened:
            stack.callback(export.close)
        for window in Follower(paths, following or Following()).windows():
            if isinstance(window, WatchedWindow):
                exported = metrics.of(window)
                for export in opened:
                    export.write(exported)
            yield window


def run_name(folder: Path) -> str:
    """What exports call the run: the name of its folder."""
    folder = folder.absolute()
    return folder.parent.name if folder.name == RUN_DIGESTS else folder.name
