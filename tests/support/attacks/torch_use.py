"""Scripts that use torch in unusual ways."""

from tests.support.attacks.cases import LOOP, Attack, trains

STEP = """
def step(model, optimizer, data=torch.ones(8, 8)):
    loss = model(data).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item().hex()
"""
DATA = """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, index):
        return torch.full((8,), index / 160)
"""


def loads(text: str, options: str) -> Attack:
    """From workers that import the script anew."""
    return trains(
        f"""
{text}
if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Data(), batch_size=8, {options})
    for epoch in range(2):
        for batch in loader:
            print(train(batch))
"""
    )


ATTACKS = {
    "compile_eager_backend": trains(
        f"""
from torch._dynamo.utils import counters
{STEP}
compiled = torch.compile(model, backend="eager")
sgd = torch.optim.SGD(compiled.parameters(), lr=0.01)
for number in range(25):
    print(step(compiled, sgd))
print(dict(counters["stats"]), dict(counters["graph_break"]), dict(counters["recompiles"]))
"""
    ),
    "deterministic_flags": trains(
        f"""
torch.use_deterministic_algorithms(True)
torch.set_float32_matmul_precision("high")
{LOOP}print(torch.are_deterministic_algorithms_enabled(), torch.get_num_threads(), torch.get_num_interop_threads())
print(torch.is_grad_enabled(), torch.get_default_dtype(), torch.autograd.profiler._is_profiler_enabled)
"""
    ),
    "dl_forkserver": loads(DATA, 'num_workers=1, multiprocessing_context="forkserver"'),
    "dl_spawn_persistent": loads(DATA, 'num_workers=2, multiprocessing_context="spawn", persistent_workers=True'),
    "dl_worker_dies": trains(
        f"""
{DATA}
Data.__getitem__ = lambda self, index: os.kill(os.getpid(), 9) if index == 100 else torch.full((8,), index / 160)
try:
    for batch in torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=1):
        print(train(batch))
except RuntimeError as error:
    print("exited unexpectedly" in str(error))
"""
    ),
    "inference_mode_autocast_fx": trains(
        """
import torch.fx

traced, scripted = torch.fx.symbolic_trace(model), torch.jit.trace(model, torch.ones(8, 8))
with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
    for number in range(40):
        print([one(torch.ones(8, 8)).float().sum().item().hex() for one in (traced, scripted)])
"""
    ),
    "lightning_like_closure": trains(
        """
lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=3)

def closure():
    loss = model(torch.ones(8, 8)).pow(2).mean()
    lbfgs.zero_grad()
    loss.backward()
    return loss

for number in range(25):
    print(float(lbfgs.step(closure)).hex())
"""
    ),
    "module_call_override": trains(
        f"""
class Doubled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs) * 2

    def __getattr__(self, name):
        return super().__getattr__(name)

    def forward(self, data):
        return self.linear(data)

plain = torch.nn.Module.__call__

def patched(self, *args, **kwargs):
    return plain(self, *args, **kwargs)

torch.nn.Module.__call__ = patched
model = Doubled()
optimizer = Descent(model.parameters(), lr=1e-3)
{LOOP}print(torch.nn.Module.__call__ is patched)
"""
    ),
    "patch_optim_class": trains(
        f"""
{STEP}
class Own(torch.optim.AdamW):
    def step(self, *args, **kwargs):
        print("mine", file=sys.stderr)
        return super().step(*args, **kwargs)

torch.optim.AdamW = Own
torch.optim.Optimizer.profile_hook_step = staticmethod(lambda step: step)
own = torch.optim.AdamW(model.parameters(), lr=1e-2)
for number in range(25):
    print(step(model, own))
"""
    ),
    "pickle_model": trains(
        f"""
import copy, io, pickle
{LOOP}    if number in (9, 10, 11):
        copy.deepcopy(model)
        file = io.BytesIO()
        torch.save(model, file)
        print(len(pickle.dumps(model)), len(pickle.dumps(optimizer.state_dict())), len(file.getvalue()))
print(sorted(vars(optimizer)), sorted(vars(model)))
"""
    ),
    "setattr_frozen_types": trains(
        f"""
print(sorted(vars(torch.nn.Module)), sorted(vars(torch.utils.data.DataLoader)), type(optimizer).__mro__)
{LOOP}print(sorted(vars(type(model))))
"""
    ),
    "torch_dispatch_mode": trains(
        """
from torch.utils._python_dispatch import TorchDispatchMode

calls = []

class Counting(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        calls.append(function)
        return function(*args, **(kwargs or {}))

with Counting():
    for number in range(25):
        print(train())
print(len(calls))
"""
    ),
    "user_profiler_schedule": trains(
        """
from torch.profiler import ProfilerActivity, profile, schedule

ready = []
with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=2, warmup=2, active=3, repeat=3),
    on_trace_ready=lambda profiler: ready.append(len(profiler.events()) > 0),
) as profiler:
    for number in range(40):
        print(train())
        profiler.step()
print(ready)
"""
    ),
}
