"""Run the SQL of a user in a process of its own: DuckDB looks at its limits now and then, the kernel always."""

import pickle
import resource
import subprocess
import sys
from pathlib import Path

from redline.errors import RedlineError, UsageError
from redline.lake.asking import AskedLake, ask_here
from redline.lake.sandbox import MOST_SECONDS

MOST_BYTES = 3 << 30  # of the process, in which DuckDB may have 2 GB
_MOST_ANSWER_BYTES = 64 << 20
_CODE = "import sys; sys.path[:] = {path!r}; from redline.lake.sql_process import main; main()"


def ask_elsewhere(lake: Path, sql: str, days: int | None) -> AskedLake:
    """The answer, or the error that it came to; UsageError where it needs more time or memory than it may."""
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-c", _CODE.format(path=sys.path)],
            input=pickle.dumps((lake, sql, days)),
            capture_output=True,
            timeout=MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"lake ask: the SQL took more than {MOST_SECONDS:.0f} s; ask for less of it") from error
    if done.returncode:
        raise UsageError(f"lake ask: the SQL needs more than {MOST_BYTES >> 30} GiB of memory; ask for less of it")
    answer: AskedLake | RedlineError = pickle.loads(done.stdout)
    if isinstance(answer, RedlineError):
        raise answer
    return answer


def main() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    lake, sql, days = pickle.load(sys.stdin.buffer)
    try:
        answer: object = ask_here(lake, None, sql, parameters={}, days=days)
    except RedlineError as error:
        answer = error
    told = pickle.dumps(answer)
    if len(told) > _MOST_ANSWER_BYTES:
        told = pickle.dumps(UsageError(f"lake ask: the answer is above {_MOST_ANSWER_BYTES >> 20} MiB; ask for less"))
    sys.stdout.buffer.write(told)
