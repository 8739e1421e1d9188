"""A Slurm of one node on the loopback of this machine, in a folder: munge, slurmctld and slurmd, ended with the block.

It needs root and Debian's `slurm-wlm`. Nothing of a Slurm that is installed already is read or changed.
"""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
_STARTS_S = 300.0
_CONFIGURATION = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_absent() -> str:
    """Why no Slurm can be started here; "" where one can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"no {missing[0]} here: apt-get install slurm-wlm"
    return "" if os.geteuid() == 0 else "slurmd needs root"


@contextmanager
def slurm_node(folder: Path, cpus: int = 2) -> Iterator[dict[str, str]]:
    """The environment in which `sbatch` speaks to it."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().partition(".")[0]
    configuration = folder / "slurm.conf"
    configuration.write_text(
        _CONFIGURATION.format(host=host, folder=folder, cpus=cpus, controller_port=free_port(), node_port=free_port())
    )
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_munge(folder))
        _until((folder / "munge.socket").exists, started, folder)
        started += [_quietly(command, environment) for command in (["slurmctld", "-D"], ["slurmd", "-D", "-N", host])]
        _until(lambda: _is_idle(environment), started, folder)
        yield environment
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def _munge(folder: Path) -> subprocess.Popen[bytes]:
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    files = {
        "socket": "munge.socket",
        "key-file": "munge.key",
        "pid-file": "munge.pid",
        "log-file": "munge.log",
        "seed-file": "munge.seed",
    }
    options = [f"--{option}={folder / name}" for option, name in files.items()]
    return _quietly(["munged", "--foreground", "--force", *options], os.environ)


def _quietly(command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing)


def _is_idle(environment: Mapping[str, str]) -> bool:
    asked = subprocess.run(
        ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return asked.stdout.strip() == "idle"


def _until(is_so: Callable[[], bool], started: list[subprocess.Popen[bytes]], folder: Path) -> None:
    until_s = time.monotonic() + _STARTS_S
    while not is_so():
        ended = [process.args for process in started if process.poll() is not None]
        if ended or time.monotonic() > until_s:
            logs = "\n".join(path.read_text(errors="replace")[-1500:] for path in sorted(folder.glob("*.log")))
            raise RuntimeError(f"Slurm did not start ({ended or 'in time'}):\n{logs}")
        time.sleep(0.3)


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
