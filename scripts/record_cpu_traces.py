"""Record small real traces with torch on the CPU: `python scripts/record_cpu_traces.py tests/data/recorded [name ...]`.

    plain_loop   a small GPT with a DataLoader, 3 profiler steps, shapes and Python stacks
    ddp          DistributedDataParallel on 2 gloo ranks, one file per rank, 3 profiler steps, shapes
    slow_loader  the same, where the data loader of rank 1 sleeps 4 ms for each batch
    compiled     the same GPT under torch.compile, 3 profiler steps
    accumulate   gradient accumulation over 2 microbatches, 3 optimizer steps, no profiler steps
    inference    forward only, 3 batches, no optimizer and no profiler steps

The files are committed, so what identifies the machine is removed: the host name is dropped, traceName becomes the file
name, and the directories of Python, site-packages, this repository, the temporary folder and the home directory are cut
from the front of paths. Recording fails if any of them is still there. Everything else is the text torch wrote.

torch writes plain JSON and we compress it: letting torch compress takes ten times longer.
Every recording runs in a process of its own, because a process can profile only once at a time.
"""

import argparse
import gzip
import multiprocessing
import os
import re
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler is silent on stderr
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, CONTEXT, WIDTH, BATCH = 64, 16, 32, 2
ACTIVE_STEPS = 3
RANKS = 2


class TinyGpt(nn.Module):
    """Embedding, one pre-norm transformer block, and a head; the output is the loss.

    Made for few operators per step: one head, no biases, rows of tokens instead of sequences where that is possible.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens.flatten())
        mixed = self.query_key_value(self.norm(x)).view(BATCH, 1, CONTEXT, 3 * WIDTH)
        query, key, value = mixed.chunk(3, dim=-1)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + attended.view(-1, WIDTH)
        x = x + self.down(functional.gelu(self.up(x)))
        return functional.cross_entropy(self.head(x), tokens.flatten())


def record_plain_loop(folder: Path) -> None:
    """A training loop as in the tutorials."""
    model, loader = _model_and_loader()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)  # fewer Python frames than AdamW
    with _profiled(folder / "plain_loop", with_stack=True) as profiler:
        for (tokens,) in loader:
            _train_step(model, optimizer, tokens)
            profiler.step()


def record_ddp(folder: Path) -> None:
    """Two gloo ranks; small buckets, so that a step has several all-reduces."""
    _record_ranks(folder / "ddp", slow_loader_ms=0)


def record_slow_loader(folder: Path) -> None:
    """The same with a fault that a diagnosis must find."""
    _record_ranks(folder / "slow_loader", slow_loader_ms=4)


def _record_ranks(stem: Path, slow_loader_ms: float) -> None:
    with tempfile.TemporaryDirectory() as meeting_place:
        store = Path(meeting_place) / "store"
        _run_in_processes([(_ddp_rank, (rank, store, stem, slow_loader_ms * rank)) for rank in range(RANKS)])


def record_compiled(folder: Path) -> None:
    """torch.compile, warmed up before the profiler's active steps."""
    model, loader = _model_and_loader()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    compiled = torch.compile(model)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        with _profiled(folder / "compiled") as profiler:
            for (tokens,) in loader:
                _train_step(compiled, optimizer, tokens)
                profiler.step()


def record_accumulate(folder: Path) -> None:
    """The only marks of a step are the optimizer's own."""
    model, loader = _model_and_loader()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    batches = [tokens for (tokens,) in loader]
    _train_step(model, optimizer, batches[0])
    with _profiled(folder / "accumulate", step_marks=False):
        for _ in range(ACTIVE_STEPS):
            for tokens in batches[:2]:
                (model(tokens) / 2).backward()
            optimizer.step()
            optimizer.zero_grad()


def record_inference(folder: Path) -> None:
    """No backward pass, no optimizer, no step marks."""
    model, loader = _model_and_loader()
    model.eval()
    batches = [tokens for (tokens,) in loader]
    with torch.inference_mode():
        model(batches[0])
        with _profiled(folder / "inference", step_marks=False):
            for tokens in batches[:ACTIVE_STEPS]:
                model(tokens)


RECORDINGS: dict[str, Callable[[Path], None]] = {
    "plain_loop": record_plain_loop,
    "ddp": record_ddp,
    "slow_loader": record_slow_loader,
    "compiled": record_compiled,
    "accumulate": record_accumulate,
    "inference": record_inference,
}


def _ddp_rank(rank: int, store: Path, stem: Path, loader_ms: float) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    model, loader = _model_and_loader(loader_ms)
    parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
    optimizer = torch.optim.AdamW(parallel.parameters(), fused=True)
    with _profiled(stem.with_name(f"{stem.name}_rank{rank}")) as profiler:
        for (tokens,) in loader:
            _train_step(parallel, optimizer, tokens)
            profiler.step()
    dist.destroy_process_group()


def _model_and_loader(loader_ms: float = 0) -> tuple[TinyGpt, DataLoader[tuple[Tensor, ...]]]:
    torch.manual_seed(0)
    tokens = torch.randint(VOCABULARY, ((ACTIVE_STEPS + 2) * BATCH, CONTEXT))

    def batch_of(rows: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        time.sleep(loader_ms / 1000)
        return tuple(torch.stack(column) for column in zip(*rows, strict=True))

    return TinyGpt(), DataLoader(TensorDataset(tokens), batch_size=BATCH, collate_fn=batch_of)


def _train_step(model: Callable[[Tensor], Tensor], optimizer: torch.optim.Optimizer, tokens: Tensor) -> None:
    loss = model(tokens)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()


@contextmanager
def _profiled(stem: Path, *, with_stack: bool = False, step_marks: bool = True) -> Iterator[profile]:
    """Profile the block and write <stem>.pt.trace.json.gz, scrubbed."""
    final = stem.with_name(f"{stem.name}.pt.trace.json.gz")
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "trace.json"
        profiler = profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=1, warmup=1, active=ACTIVE_STEPS, repeat=1) if step_marks else None,
            on_trace_ready=lambda finished: finished.export_chrome_trace(str(plain)),
            record_shapes=True,
            with_stack=with_stack,
            acc_events=True,
        )
        with profiler:
            yield profiler
        text = scrubbed(plain.read_text(), final.name.removesuffix(".gz"))
    final.write_bytes(gzip.compress(text.encode(), compresslevel=6, mtime=0))


def scrubbed(text: str, trace_name: str) -> str:
    """The trace without what identifies this machine; raises if something is left."""
    text = re.sub(r'\s*"host_name": "[^"]*",', "", text)
    text = re.sub(r'"traceName": "[^"]*"', f'"traceName": "{trace_name}"', text)
    for directory in private_directories():
        text = text.replace(f"{directory}/", "").replace(directory, "")
    left = [secret for secret in (*private_directories(), f'"{socket.gethostname()}"') if secret in text]
    if left:
        raise RuntimeError(f"{trace_name}: {len(left)} machine-specific strings were not removed: {left}")
    return text


def private_directories() -> list[str]:
    """Directories that say where and by whom a trace was made, longest first."""
    paths = sysconfig.get_paths()
    directories = {
        *(paths[key] for key in ("purelib", "platlib", "stdlib")),
        sys.prefix,
        sys.base_prefix,
        tempfile.gettempdir(),
        str(Path(__file__).resolve().parents[1]),
        str(Path.cwd()),
        str(Path.home()),
    }
    return sorted(directories - {"/"}, key=len, reverse=True)


def _run_in_processes(calls: list[tuple[Callable[..., None], tuple[object, ...]]]) -> None:
    """Run each call in a forked process; forking takes 0.1 s where a fresh import of torch takes 3."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_quiet_single_thread, args=call) for call in calls]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    failed = [process.exitcode for process in processes if process.exitcode != 0]
    if failed:
        raise RuntimeError(f"recording failed with exit codes {failed}")


def _quiet_single_thread(call: Callable[..., None], arguments: tuple[object, ...]) -> None:
    torch.set_num_threads(1)
    call(*arguments)


def main() -> None:
    """Record what was asked for and print the sizes."""
    parser = argparse.ArgumentParser(description="Record small real traces with torch on the CPU.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(RECORDINGS)}; all when none is given")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(RECORDINGS):
        parser.error(f"unknown recordings {sorted(unknown)}; choose from {', '.join(RECORDINGS)}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or RECORDINGS:
        _run_in_processes([(RECORDINGS[name], (arguments.folder.resolve(),))])
    for path in sorted(arguments.folder.glob("*.pt.trace.json.gz")):
        print(f"{path.stat().st_size:8d} bytes  {path.name}")


if __name__ == "__main__":
    main()
