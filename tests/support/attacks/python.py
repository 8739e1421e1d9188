"""Scripts that change Python itself: its options, hooks, modules, builtins and limits."""

from tests.support.attacks.cases import LOOP, trains

ATTACKS = {
    "X_dev": trains(python=("-X", "dev")),
    "flag_E": trains(python=("-E",)),
    "flag_I": trains(python=("-I",)),
    "flag_O_X": trains(f"assert False\n{LOOP}print(sys._xoptions, sys.flags.optimize)\n", python=("-OO", "-X", "utf8")),
    "warnings_error": trains(f"import warnings\nwarnings.simplefilter('error')\n{LOOP}", python=("-W", "error")),
    "pythonstartup": trains(
        f"{LOOP}print(os.environ['PYTHONSTARTUP'], os.environ['CUDA_VISIBLE_DEVICES'], hash('x'))\n",
        variables={"PYTHONSTARTUP": "/nonexistent.py", "CUDA_VISIBLE_DEVICES": "7", "PYTHONHASHSEED": "0"},
    ),
    "audit_hook": trains(
        f"""
seen = set()
watched = ("subprocess.Popen", "os.system", "socket.connect", "os.exec", "socket.bind")
sys.addaudithook(lambda event, args: seen.add(event) if event in watched else None)
{LOOP}print(sorted(seen))
"""
    ),
    "audit_log_only": trains(
        f"import collections\ncounted = collections.Counter()\n"
        f"sys.addaudithook(lambda event, args: counted.update([event]))\n{LOOP}"
    ),
    "audit_hook_blocks": trains(
        """
armed = False

class Blocked(PermissionError):
    pass

def hook(event, args):
    if armed and event in ("open", "os.fork", "os.mkdir", "os.rename"):
        raise Blocked("blocked " + event)

sys.addaudithook(hook)
for number in range(25):
    armed = number >= 8
    loss = train()
    armed = False
    print(loss)
"""
    ),
    "builtins_broken": trains(
        """
import builtins, json

def fail(*args, **kwargs):
    raise RuntimeError("broken")

for number in range(25):
    sys.stdout.write(train() + "\\n")
    if number == 7:
        builtins.open = os.open = json.dumps = time.perf_counter_ns = os.fork = os.getpid = os.dup = fail
"""
    ),
    "cprofile": trains(
        f"import cProfile\nprofile = cProfile.Profile()\nprofile.enable()\n{LOOP}profile.disable()\nprint('ok')\n"
    ),
    "setprofile": trains(
        f"""
calls = []

def profile(frame, event, arg):
    calls.append(1)

sys.setprofile(profile)
{LOOP}print(sys.getprofile() is profile)
sys.setprofile(None)
"""
    ),
    "settrace": trains(
        f"""
def trace(frame, event, arg):
    return trace

sys.settrace(trace)
{LOOP}print(sys.gettrace() is trace)
sys.settrace(None)
"""
    ),
    "recursion_limit": trains(f"sys.setrecursionlimit(120)\n{LOOP}"),
    "deep_recursion_train": trains(
        """
def deep(calls):
    return deep(calls - 1) if calls else train()

for spare in range(80, 3, -1):  # from room enough for a window to too little for the step itself
    try:
        print(spare, deep(sys.getrecursionlimit() - spare))
    except RecursionError:
        print(spare, "too deep")
"""
    ),
    "gc_freeze_disable": trains(
        f"""
import gc

gc.disable()
gc.freeze()
{LOOP}print(gc.isenabled(), gc.get_freeze_count() > 0, gc.get_threshold(), gc.callbacks)
"""
    ),
    "sys_modules_purge": trains(
        """
for number in range(25):
    print(train())
    if number == 6:
        for name in [name for name in sys.modules if name.startswith("redline")]:
            del sys.modules[name]
    if number == 9:
        sys.path.clear()
        sys.meta_path.clear()
"""
    ),
    "isatty_env": trains(
        """
hidden = ("TMPDIR",)
print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty(), sys.argv, sys.path, sys.flags, __name__, __file__)
print({name: value for name, value in os.environ.items() if name not in hidden}, os.getppid() != 1)
print(open(os.devnull).fileno())
"""
        + LOOP
        + "print([name for name in os.environ if 'REDLINE' in name], [p for p in sys.path if 'launch' in p])\n"
    ),
    "secret_env_args": trains(f"sys.argv += ['--api-key', 'sk-0']\nos.environ['PASSWORD'] = 'x'\n{LOOP}"),
    "rng_consumption": trains(
        """
import random

random.seed(1)
for number in range(25):
    print(train(), random.random(), torch.rand(1).item())
"""
    ),
    "subprocess_python_child": trains(
        """
import subprocess

for number in range(11):
    train()
code = "import os, sys; print(sorted(k for k in os.environ if 'REDL' in k), os.environ['PYTHONPATH'], sys.path)"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
"""
    ),
    "stdin_use": trains(f"print(input('name? '))\nprint(sys.stdin.read())\n{LOOP}", given="Bob\nrest of\nstdin\n"),
    "binary_output": trains(
        """
for number in range(15):
    train()
    sys.stdout.buffer.write(bytes(range(256)) * 10)
    sys.stderr.buffer.write(bytes(range(256)))
"""
    ),
}
