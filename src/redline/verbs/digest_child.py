"""The process beside a watched job that digests its traces, or finds out which ranks of a window stand out.

`redline run --digests` starts it with its limits, and reads a line of JSON for each trace from its stdout.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_MOST_DIGESTS = 256  # that a choice of ranks reads, however many the job has
_BOOT = (
    "import json, sys; sys.path += json.loads(sys.argv[1]); "
    "from redline.verbs.digest_child import main; main(sys.argv[2])"
)


def digest_program() -> list[str]:
    """The command, to which a task is added.

    No variable, no `sitecustomize` and no module of the folder in which the job is started reaches it.
    """
    package = str(Path(__file__).resolve().parents[2])
    here = ""
    with suppress(OSError):  # the folder may be gone
        here = str(Path.cwd())
    others = [path for path in sys.path if path not in ("", here)]
    return [sys.executable, "-I", "-S", "-c", _BOOT, json.dumps([package, *others])]


def main(text: str) -> None:
    """Do the task, which is a JSON object: traces with the digests that are wanted, and perhaps a folder of digests."""
    task = json.loads(text)
    folder = Path(task["folder"])
    for trace, target in task["digest"]:
        _tell(_attempted(folder / trace, folder / target))
    if "choose" in task:
        cpu_ns = time.process_time_ns()
        ranks = _standing_out(Path(task["choose"]), task["own"])
        _tell({"ranks": ranks, "cpu_ns": time.process_time_ns() - cpu_ns})


def _tell(told: dict[str, Any]) -> None:
    os.write(1, json.dumps(told).encode() + b"\n")


def _attempted(trace: Path, target: Path) -> dict[str, Any]:
    """What became of it; whatever fails costs this digest."""
    from redline.errors import RedlineError, first_line

    try:
        return _digested(trace, target)
    except RedlineError as error:
        return {"error": first_line(error)}
    except MemoryError:
        return {"error": "digesting needs more memory than it may have"}
    except OSError as error:
        return {"error": f"the digest cannot be written ({error.strerror})"}
    except Exception as error:  # noqa: BLE001 (the next trace may be another)
        return {"error": f"digesting failed, which is a bug in Redline: {type(error).__name__}: {first_line(error)}"}


def _digested(trace: Path, target: Path) -> dict[str, Any]:
    from redline.findings.match import match_rules
    from redline.job.read_files import JobOptions
    from redline.ledger.job.digests import digest_job
    from redline.ledger.rank.digest_file import save_digest
    from redline.timeline.problems import Reason

    began_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
    digested = digest_job([trace], None, JobOptions(jobs=1, use_cache=False), match=match_rules)
    digest = digested.digests[0]
    target.parent.mkdir(parents=True, exist_ok=True)
    saved = save_digest(digest, target, made_by="redline run --digests", force=True)
    is_torn = Reason.TRUNCATED_FILE.code in digest.origin.dropped
    return {
        "size_bytes": saved.size_bytes,
        "damage": Reason.TRUNCATED_FILE.sentence if is_torn else "",
        "wall_ns": time.perf_counter_ns() - began_ns,
        "cpu_ns": time.process_time_ns() - cpu_ns,
    }


def _standing_out(folder: Path, own: Sequence[int]) -> dict[str, str]:
    """Of the own ranks those that stand out among all whose digests are here, or among some of these."""
    from redline.artifacts import DIGEST_ENDING
    from redline.errors import InputError
    from redline.ledger.job.combine import combine
    from redline.ledger.job.outlier_ranks import ranks_that_stand_out
    from redline.ledger.rank.digest_file import load_digest

    mine = [folder / f"rank-{rank}{DIGEST_ENDING}" for rank in own]
    others = sorted({*folder.glob(f"rank-*{DIGEST_ENDING}")} - {*mine})
    every = max(1, -(-len(others) // max(_MOST_DIGESTS - len(mine), 1)))
    digests = []
    for path in (*mine, *others[::every]):
        try:
            digests.append(load_digest(path))
        except InputError:  # of another watcher; it is diagnosed with what is there
            continue
    standing_out = ranks_that_stand_out(combine(digests))
    return {str(rank): why for rank, why in standing_out.items() if rank in own}
