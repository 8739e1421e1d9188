"""Scripts that are hard on what the system gives: files, processes, memory, signals, threads."""

from tests.support.attacks.cases import LOOP, OUTPUT, trains

EXHAUST = """
held = []
for number in range(25):
    if number == 7:
        try:
            while True:
                held.append(os.open("/dev/null", 0))
        except OSError:
            pass
    sys.stdout.write(train() + "\\n")
"""
FOUR = "(signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGALRM)"

ATTACKS = {
    "nofile_64": trains(f"{LOOP}print(len(os.listdir('/proc/self/fd')))\n", files=64),
    "nofile_exhausted": trains(EXHAUST, files=128),
    "wrapped_open_emfile": trains(
        f"""
import builtins

plain = builtins.open

def wrapped(*args, **kwargs):  # as libraries install that trace it
    return plain(*args, **kwargs)

builtins.open = wrapped
{EXHAUST}""",
        files=128,
    ),
    "wrapped_fork_eagain": trains(
        f"""
def fork():
    raise BlockingIOError(11, "Resource temporarily unavailable")

def no_process(event, args):
    if event == "os.fork":
        fork()

os.fork = fork
sys.addaudithook(no_process)  # which sees the fork that was there before as well
{LOOP}"""
    ),
    "pyfakefs_like": trains(
        """
import builtins, io

def fake(path, *args, **kwargs):
    if isinstance(path, int):
        return plain(path, *args, **kwargs)
    raise FileNotFoundError(2, "No such file in the fake file system", str(path))

plain = io.open
for number in range(25):
    if number == 8:
        builtins.open = io.open = os.open = os.stat = os.lstat = os.makedirs = os.memfd_create = fake
    print(train())
    if number == 20:
        builtins.open = plain
"""
    ),
    "closed_stdio": trains("os.close(2)\nfor number in range(25):\n    train()\nos.close(1)\n"),
    "delete_cwd": trains(
        f"""
import tempfile

folder = tempfile.mkdtemp()
os.chdir(folder)
os.rmdir(folder)
{LOOP}
try:
    os.getcwd()
except FileNotFoundError:
    print("gone")
"""
    ),
    "output_folder_removed": trains(
        "import shutil\n"
        f"{LOOP}    if number in (2, 8, 10, 12):\n        shutil.rmtree({OUTPUT!r}, ignore_errors=True)\n"
    ),
    "fsize_limit": trains(
        """
import resource

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
for number in range(25):
    if number == 7:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    sys.stderr.write(train() + "\\n")
"""
    ),
    "nproc_limit": trains(
        f"import resource\n{LOOP}    if number == 7:\n        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n"
    ),
    "vmem_tight": trains(
        """
import mmap, resource

pages = int(open("/proc/self/statm").read().split()[0])
for number in range(25):
    if number == 7:
        resource.setrlimit(resource.RLIMIT_AS, (pages * mmap.PAGESIZE + (24 << 20),) * 2)
    print(train())
"""
    ),
    "cpu_limit_sigxcpu": trains(
        """
import resource

told = []
signal.signal(signal.SIGXCPU, lambda *_: told.append(1))
used = resource.getrusage(resource.RUSAGE_SELF)
resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1, resource.RLIM_INFINITY))
count = 0
while not told:
    train()
print(len(told))
"""
    ),
    "own_signals": trains(
        f"""
told = []

def handle(number, frame):
    told.append(number)

for number in {FOUR}:
    signal.signal(number, handle)
for number in range(25):
    print(train())
    if number in (3, 10, 20):
        for one in {FOUR}:
            os.kill(os.getpid(), one)
print(told, [signal.getsignal(one).__name__ for one in {FOUR}])
"""
    ),
    "alarm_during": trains(
        """
told = []
signal.signal(signal.SIGALRM, lambda *_: told.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for number in range(60):
    print(train())
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(told) > 0)
"""
    ),
    "daemon_threads": trains(
        f"""
def work():
    while True:
        torch.ones(10) @ torch.ones(10)

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
{LOOP}sys.stdout.flush()
os._exit(0)  # torch itself aborts now and then while Python ends beside such threads
"""
    ),
    "train_in_thread": trains(
        """
def work():
    for number in range(25):
        print(train())

thread = threading.Thread(target=work)
thread.start()
thread.join()
print(threading.active_count())
"""
    ),
    "two_threads_train": trains(
        """
def work(seed, losses):
    random = torch.Generator().manual_seed(seed)
    model = torch.nn.Linear(4, 1)
    torch.nn.init.constant_(model.weight, 0.1)
    torch.nn.init.zeros_(model.bias)
    own = Descent(model.parameters(), lr=0.1)
    for number in range(40):
        loss = (model(torch.randn(8, 4, generator=random)) - 1).pow(2).mean()
        own.zero_grad()
        loss.backward()
        own.step()
        losses.append(loss.item().hex())

losses = [], []
threads = [threading.Thread(target=work, args=(seed, losses[seed])) for seed in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(losses)
"""
    ),
    "asyncio_loop": trains(
        """
import asyncio

async def main():
    for number in range(25):
        print(train())
        await asyncio.sleep(0)

asyncio.run(main())
"""
    ),
    "fork_mid": trains(
        f"""
{LOOP}    if number in (5, 9, 10, 11, 15):
        child = os.fork()
        if not child:
            for _ in range(3):
                train()
            os._exit(3)
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no children")
"""
    ),
    "multiprocess_pool_fork": trains(
        """
import multiprocessing

def square(number):
    return number * number

for number in range(9):
    print(train())
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(square, range(5)))
for number in range(16):
    print(train())
"""
    ),
    "setsid_daemonize": trains(
        """
for number in range(11):
    print(train(), flush=True)
child = os.fork()
if not child:
    os.setsid()
    os.closerange(3, 256)
    files = [open(os.devnull) for _ in range(100)]
    time.sleep(0.2)
    print([one.read() for one in files] == [""] * 100, flush=True)
    os._exit(0)
os.waitpid(child, 0)
os.closerange(3, 256)  # in the midst of a window
files = [open(__file__) for _ in range(100)]
for number in range(11):
    print(train(), flush=True)
print({len(one.read()) for one in files} == {os.stat(__file__).st_size})
"""
    ),
}
