"""Scripts that come near what a process may have, or look at what it has: memory, stacks, threads, allocators."""

from pathlib import Path

from tests.support.attacks.cases import LOOP, trains

USED = """
import resource

def used(name):  # of VmSize, VmData: in bytes
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024

def limit(what, name, more):
    resource.setrlimit(what, (used(name) + (more << 20),) * 2)
"""
# The limit of processes does not hold for root.
AS_NOBODY = """
if [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps +dac_override --ambient-caps +dac_override "$@"
fi
exec "$@"
"""
SMALL_DISK = """
exec unshare --user --map-root-user --mount sh -c '
    mkdir small && mount -t tmpfs -o size=64k none small && mount -t tmpfs -o size=4k none /dev/shm && "$@"
    code=$?; umount small && rmdir small && exit $code' sh "$@"
"""


def _library(name: str) -> dict[str, str]:
    """To be loaded before all others, if it is installed."""
    found = sorted(str(path) for path in Path("/usr/lib").glob(f"*/{name}.so.*"))
    return {"LD_PRELOAD": found[0]} if found else {}


ATTACKS = {
    "data_limit_as_a_window_opens": trains(
        f"{USED}{LOOP}    if number == 8:\n        limit(resource.RLIMIT_DATA, 'VmData', 8)\n"
    ),
    "data_limit_in_a_window": trains(
        f"{USED}{LOOP}    if number == 9:\n        limit(resource.RLIMIT_DATA, 'VmData', 1)\n"
    ),
    "address_limit_in_a_window": trains(
        f"{USED}{LOOP}    if number == 9:\n        limit(resource.RLIMIT_AS, 'VmSize', 2)\n"
    ),
    "grows_to_its_limit_afterwards": trains(
        f"""
{USED}
held = []
for number in range(25):
    print(train(), flush=True)
    if number == 13:
        limit(resource.RLIMIT_DATA, "VmData", 40)
    if number > 13:
        held.append(bytearray(3 << 20))
"""
    ),
    "out_of_memory_is_caught": trains(
        """
for number in range(25):
    print(train(), flush=True)
    try:
        torch.empty(1 << 32, dtype=torch.uint8).fill_(1)
    except RuntimeError as error:
        print(type(error).__name__, "can't allocate memory" in str(error))
    try:
        bytearray(1 << 32)
    except MemoryError:
        print("none")
""",
        shell='ulimit -v 3500000 && exec "$@"',
    ),
    "data_limit_from_the_start": trains(shell='ulimit -d 450000 && exec "$@"'),
    "no_file_may_grow": trains(
        f"""
import resource

{LOOP}    if number == 4:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""
    ),
    "stack_of_half_a_megabyte": trains(
        """
def deep(number):
    return train() if number == 0 else deep(number - 1)

for number in range(25):
    print(deep(40 * number))
""",
        shell='ulimit -s 512 && exec "$@"',
    ),
    "stacks_of_a_gigabyte": trains(
        f"""
torch.set_num_threads(2)
{LOOP}    thread = threading.Thread(target=torch.ones(300, 300).mm, args=(torch.ones(300, 300),))
    thread.start()
    thread.join()
""",
        shell='ulimit -s 1000000 && ulimit -v 6000000 && exec "$@"',
    ),
    "no_more_processes": trains(
        f"""
import resource

{LOOP}    if number == 7:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
try:
    os.fork()
except BlockingIOError as error:
    print(error)
try:
    threading.Thread(target=print).start()
except RuntimeError as error:
    print(error)
""",
        shell=AS_NOBODY,
    ),
    "all_limits_are_what_is_used": trains(
        f"""
import resource

{LOOP}    if number == 9:
        for name in ("NOFILE", "MEMLOCK", "SIGPENDING", "MSGQUEUE", "CORE", "RTPRIO", "NICE", "LOCKS"):
            if hasattr(resource, "RLIMIT_" + name):
                resource.setrlimit(getattr(resource, "RLIMIT_" + name), (3 * (name == "NOFILE"),) * 2)
""",
    ),
    "all_memory_is_locked": trains(
        f"""
import ctypes

{LOOP}    if number == 4:
        print(ctypes.CDLL(None, use_errno=True).mlockall(3))
""",
        shell=AS_NOBODY,
    ),
    "no_memory_files_and_no_processes": trains(
        f"""
import ctypes, struct

def forbid(*numbers):  # system calls, which fail with EPERM from now on
    rules = [(0x20, 0, 0, 0)]
    for at, number in enumerate(numbers):
        rules.append((0x15, len(numbers) - at, 0, number))
    rules += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)]
    code = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    kept = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(38, 1, 0, 0, 0), libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0)

{LOOP}    if number == 6 and os.uname().machine == "x86_64":
        print(forbid(56, 57, 58, 319, 435))  # clone, fork, vfork, memfd_create, clone3
"""
    ),
    "workers_under_a_limit": trains(
        f"""
{USED}
from torch.utils.data import DataLoader

def start(number):
    limit(resource.RLIMIT_AS, "VmSize", 60)

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, at):
        if at == 45:
            bytearray(1 << 30)
        return torch.full((8,), float(at))

if __name__ == "__main__":
    try:
        for batch in DataLoader(Data(), 4, num_workers=1, worker_init_fn=start):
            print(train(batch), flush=True)
    except MemoryError as error:
        print("MemoryError" in str(error))
"""
    ),
    "a_worker_is_killed_in_a_window": trains(
        """
from torch.utils.data import DataLoader

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, at):
        if at == 38:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.full((8,), float(at))

count = 0
for again in range(2):
    try:
        for batch in DataLoader(Data(), 4, num_workers=1, prefetch_factor=1):
            train(batch)
            count += 1
    except RuntimeError as error:
        print("exited unexpectedly" in str(error))
print(6 < count < 20)
"""
    ),
    "disk_and_shared_memory_are_full": trains(
        """
for number in range(25):
    print(train(), flush=True)
    try:
        with open("small/checkpoint", "ab") as file:
            file.write(bytes(10_000))
    except OSError as error:
        print(error)
""",
        shell=SMALL_DISK,
    ),
    "jemalloc": trains(variables=_library("libjemalloc")),
    "tcmalloc": trains(variables=_library("libtcmalloc_minimal")),
    "allocators_that_check": trains(
        variables={"MALLOC_PERTURB_": "165", "MALLOC_ARENA_MAX": "1", "PYTHONMALLOC": "debug", "PYTHONDEVMODE": "1"}
    ),
    "threads_of_torch_and_signals_at_exit": trains(
        """
import atexit

def handle(number, frame):
    print("told", flush=True)
    raise SystemExit(7)

def at_exit():
    print("last", threading.active_count(), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

atexit.register(at_exit)
signal.signal(signal.SIGTERM, handle)
ended = threading.Event()

def work():
    while not ended.is_set():
        torch.ones(50, 50).mm(torch.ones(50, 50))

threading.Thread(target=work, daemon=True).start()
for number in range(25):
    print(train(), flush=True)
    if number == 9:
        ended.set()
        break
"""
    ),
    "hooks_everywhere_and_a_tracer": trains(
        """
import torch.nn.modules.module as module

seen = {}

def note(name, result=None):
    def hook(*args):
        seen[name] = seen.get(name, 0) + 1
        return result
    return hook

module.register_module_forward_pre_hook(note("before"))
module.register_module_forward_hook(note("after"))
module.register_module_full_backward_hook(note("backward"))
torch.optim.optimizer.register_optimizer_step_pre_hook(note("to step"))
torch.optim.optimizer.register_optimizer_step_post_hook(note("stepped"))
frames = []

def trace(frame, event, argument):
    frames.append(frame.f_code.co_name)
    return trace

for number in range(25):
    with torch.autograd.graph.saved_tensors_hooks(lambda one: one.clone(), lambda one: one):
        if number in (3, 9):
            sys.settrace(trace)
        print(train(), flush=True)
        sys.settrace(None)
print(seen, "train" in frames, any("redline" in name for name in frames))
"""
    ),
    "spawned_and_forked_in_a_window": trains(
        """
import subprocess, torch.multiprocessing as many

def child(shared):
    shared += 1

if __name__ == "__main__":
    for number in range(25):
        print(train(), flush=True)
        if number == 9:
            shared = torch.zeros(3)
            shared.share_memory_()
            for how in ("fork", "spawn"):
                process = many.get_context(how).Process(target=child, args=(shared,))
                process.start()
                process.join()
                print(process.exitcode)
            print(shared.tolist())
            print(subprocess.run([sys.executable, "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))"],
                                 capture_output=True, text=True, close_fds=False).stdout)
"""
    ),
    "checkpoints_to_a_folder_that_changes": trains(
        """
import shutil

for number in range(25):
    os.makedirs(f"checkpoint-{number}", mode=0o700)
    print(train(), flush=True)
    torch.save({"model": model.state_dict(), "number": number}, f"checkpoint-{number}/state.pt")
    os.chdir(f"checkpoint-{number}")
    if number % 3 == 0:
        shutil.rmtree(os.getcwd())
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
"""
    ),
}
