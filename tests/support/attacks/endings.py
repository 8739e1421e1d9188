"""Scripts that end in unusual ways, or never get as far as a step."""

from tests.support.attacks.cases import LOOP, Attack, trains


def after_ten(act: str) -> Attack:
    """In the midst of a window."""
    return trains(f"{LOOP}    if number == 10:\n        {act}\n")


ATTACKS = {
    "plain": trains(),
    "abort": after_ten("os.abort()"),
    "kill_self_kill": after_ten("os.kill(os.getpid(), signal.SIGKILL)"),
    "kill_self_term": after_ten("os.kill(os.getpid(), signal.SIGTERM)"),
    "X_faulthandler_segv": trains(  # after the window: in it, all threads are one more
        f"{LOOP}    if number == 20:\n        import ctypes; ctypes.string_at(0)\n", python=("-X", "faulthandler")
    ),
    "exc_in_window": after_ten("raise type('Own', (BaseException,), {})('in the window')"),
    "exception_group_and_chain": after_ten(
        """
        try:
            1 / 0
        except ZeroDivisionError as error:
            raise ExceptionGroup("group", [ValueError(1), TypeError(2)]) from error
"""
    ),
    "excepthook": trains(
        f"sys.excepthook = lambda kind, error, trace: print('hook', kind.__name__, error)\n{LOOP}"
        "    if number == 10:\n        raise KeyError('x')\n"
    ),
    "exit_in_atexit": trains(f"import atexit\natexit.register(os._exit, 17)\n{LOOP}sys.stdout.flush()\n"),
    "sysexit_in_atexit": trains(f"import atexit\natexit.register(sys.exit, 18)\n{LOOP}sys.exit('a message')\n"),
    "execv_mid": trains(
        """
if len(sys.argv) == 1:
    for number in range(10):
        print(train(), flush=True)
    os.execv(sys.executable, [sys.executable, __file__, "again"])
for number in range(25):
    print(train())
sys.exit(9)
"""
    ),
    "sigpipe": trains(
        "for number in range(12):\n    train()\nfor number in range(200):\n    sys.stdout.write('y' * 1_000_000)\n",
        shell='"$@" | head -c 9; exit ${PIPESTATUS[0]}',
    ),
    "no_torch": Attack(text="import sys\nprint('hello')\nsys.exit(5)\n"),
    "syntax_error": Attack(text="def f(:\n    pass\n"),
    "import_torch_late_fail": Attack(
        text="""
import sys
sys.modules["torch"] = None
try:
    import torch
except ImportError as error:
    print(type(error).__name__, error)
"""
    ),
    "optimizer_in_backward_exception": trains(
        """
class Fails(torch.autograd.Function):
    @staticmethod
    def forward(context, data):
        return data.clone()

    @staticmethod
    def backward(context, gradient):
        raise RuntimeError("in backward")

for number in range(25):
    if number == 10:
        Fails.apply(model(torch.ones(4, 8))).sum().backward()
    print(train())
"""
    ),
    "global_hook_raises": trains(
        """
from torch.optim.optimizer import register_optimizer_step_post_hook

calls = []

def hook(optimizer, args, kwargs):
    calls.append(1)
    if len(calls) == 11:
        raise RuntimeError("a hook")

register_optimizer_step_post_hook(hook)
for number in range(25):
    try:
        print(train())
    except RuntimeError as error:
        print("caught", error)
"""
    ),
    "patch_optim_step_raises_in_hook": trains(
        """
steps = []

def hook(optimizer, args, kwargs):
    steps.append(1)
    if len(steps) > 12:
        raise ValueError("in a hook")

optimizer.register_step_post_hook(hook)
"""
        + LOOP
    ),
    "slow_step_60s": after_ten("time.sleep(20)"),
    "short_10000": trains(
        """
import hashlib

losses = hashlib.sha256()
for number in range(10_000):
    losses.update(train().encode())
print(losses.hexdigest())
"""
    ),
}
