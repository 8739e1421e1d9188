"""A job in a store that fails: the same result as from files, what could not be read named, nothing given away.

`python -m bench.fleet.stores` needs `pip install 'redline-perf[s3]' 'moto[server]'`, and starts all servers itself.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.fleet.faulty_store import BUCKET, Faults, proxied, put_object, s3_server
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

SECRET = "wJalrXUtnFEMI9K7MDENG4bPxRfiCYEXAMPLE2KEY"
_KEY = "AKIAIOSFODNN7EXAMPLE"
_PER_CONNECTION = 4_000_000.0  # bytes per second of the slowed store
_LOOK_S = 0.02


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that has ended."""

    code: int
    output: str
    complaints: str
    wall_s: float
    most_bytes: int  # of memory, of its largest process
    most_spooled_bytes: int
    left_bytes: int  # in its folder for temporary files


def access_to(endpoint: str) -> dict[str, str]:
    """What a user's environment has of a store."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "REDLINE_CACHE": "off",
    }


def redline(arguments: list[str], environment: Mapping[str, str], python: str = sys.executable) -> Ended:
    """Run a verb; what it keeps of objects on disk is measured while it runs."""
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.monotonic()
        process = subprocess.Popen(
            [python, "-m", "redline", *arguments],
            env={**os.environ, **environment, "TMPDIR": scratch},
            stdout=out,
            stderr=err,
        )
        most, over = 0, threading.Event()

        def look() -> None:
            nonlocal most
            while not over.wait(_LOOK_S):
                most = max(most, _bytes_in(Path(scratch)))

        looking = threading.Thread(target=look)
        looking.start()
        _, status, used = os.wait4(process.pid, 0)
        over.set()
        looking.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, err):
            file.seek(0)
        return Ended(
            code=process.returncode,
            output=out.read().decode(),
            complaints=err.read().decode(),
            wall_s=time.monotonic() - began,
            most_bytes=used.ru_maxrss * 1024,
            most_spooled_bytes=most,
            left_bytes=_bytes_in(Path(scratch)),
        )


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:  # gone meanwhile, as it should
            continue
    return total


@contextmanager
def filled_store(folder: Path, faults: Faults, python: str = sys.executable) -> Iterator[tuple[str, str]]:
    """The addresses of a store that holds the files of a folder under `run`: as it is, and as it fails."""
    with s3_server(python) as server, proxied(server, Faults()) as sound, proxied(server, faults) as failing:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                put_object(server, f"run/{path.relative_to(folder)}", path.read_bytes())
        yield sound, failing


def same_result(local: str, folder: Path, remote: str) -> bool:
    """Whether two outputs differ in nothing but where the files are."""
    return local.replace(f"{folder}/", "") == remote.replace(f"s3://{BUCKET}/run/", "")


def _job(ranks: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = JobSpec(ranks=ranks, steps=4, layers=2, stragglers=(Straggler(rank=2, extra_us=1500),))
        write_job(spec, folder)
        sizes = [path.stat().st_size for path in folder.glob("*.gz")]
        print(f"a job of {ranks} ranks, {sum(sizes) / 1e6:.1f} MB, the largest file {max(sizes) / 1e6:.2f} MB")
        local = redline(["diagnose", name, "--json", "--jobs", "2"], access_to(""))
        print(f"  from files: {local.wall_s:.1f} s, {local.most_bytes / 1e6:.0f} MB of memory")
        faults = Faults(refused=0.05, cut=0.02, short=0.01, lossy_listing=0.3, endless_listing=0.3)
        with filled_store(folder, faults) as (sound, failing):
            command = ["diagnose", f"s3://{BUCKET}/run", "--json", "--jobs", "2"]
            _tell("from a store", redline(command, access_to(sound)), local, folder)
            _tell("from one that fails", redline(command, access_to(failing)), local, folder)
            print(f"    of {faults.done['requests']} requests: {_counts(faults)}")
            faults.broken = r"rank-7\."
            lacking = redline(command, access_to(failing))
            failures = [failure["message"] for failure in json.loads(lacking.output)["failures"]]
            print(f"  one object never comes: exit code {lacking.code}, failures: {failures}")
            _give_nothing_away(lacking)


def _tell(what: str, ended: Ended, local: Ended, folder: Path) -> None:
    same = same_result(local.output, folder, ended.output)
    print(
        f"  {what}: {ended.wall_s:.1f} s, {ended.most_bytes / 1e6:.0f} MB of memory, at most "
        f"{ended.most_spooled_bytes / 1e6:.2f} MB on disk, {ended.left_bytes} B left; same JSON: {same}"
    )
    _give_nothing_away(ended)
    if not same:
        raise SystemExit(f"the results differ\n{ended.complaints}")


def _counts(faults: Faults) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(faults.done.items()) if count and name != "requests")


def _give_nothing_away(ended: Ended) -> None:
    if SECRET in ended.output + ended.complaints or _KEY in ended.output + ended.complaints:
        raise SystemExit("an output holds the secret")


def _throughput(size_bytes: int) -> None:
    """Of one large object, in the same ranges one after the other and side by side."""
    from redline.storage import fetch, path_of, released_after

    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "large").write_bytes(os.urandom(size_bytes))
        with filled_store(Path(name), Faults(bytes_per_s=_PER_CONNECTION)) as (_, slow):
            os.environ.update(access_to(slow))
            print(f"an object of {size_bytes / 1e6:.0f} MB, {_PER_CONNECTION / 1e6:.0f} MB/s for each connection")
            for threads in (1, fetch.SIDE_BY_SIDE):
                fetch.SIDE_BY_SIDE = threads
                path = path_of(f"s3://{BUCKET}/run/large")
                path.stat()
                began = time.monotonic()
                with released_after(path):
                    os.fspath(path)
                took_s = time.monotonic() - began
                print(f"  {threads} at a time: {took_s:.1f} s, {size_bytes / took_s / 1e6:.1f} MB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--large-mb", type=int, default=64)
    options = parser.parse_args()
    _job(options.ranks)
    _throughput(options.large_mb * 1_000_000)


if __name__ == "__main__":
    main()
