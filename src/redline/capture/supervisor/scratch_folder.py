"""A folder to run a job in that looks like another one, so that what the job leaves behind can be thrown away."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redline.capture.supervisor.guardian import SCRATCH
from redline.capture.supervisor.trial_command import TrialCommand

_COPIED_BYTES = 1 << 20  # of a file at most: logs and tables of results, not data


def guarded_folders(command: TrialCommand) -> list[Path]:
    """Where a job that is started many times must not write: the user's folder, and that of the script."""
    script = command.folder / command.python.script if command.python else None
    folders = [command.folder, *([script.parent] if script and script.is_file() else [])]
    return list(dict.fromkeys(folder.resolve() for folder in folders))


@contextmanager
def make_scratch(original: Path, mark: str = "") -> Iterator[Path]:
    """Looks like the original folder: small files are copies, which a job may overwrite, all else are links.

    New files go into the new folder, which is removed afterwards.
    """
    scratch = Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{mark}")).resolve()
    try:
        for entry in sorted(original.resolve().iterdir()):
            if _is_copied(entry):
                shutil.copy2(entry, scratch / entry.name)
            else:
                (scratch / entry.name).symlink_to(entry)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)  # links are removed, never followed


def _is_copied(entry: Path) -> bool:
    """Modules are links: what is imported must be where it was, for its neighbours and for tracebacks."""
    return entry.is_file() and entry.suffix != ".py" and entry.stat().st_size <= _COPIED_BYTES
