"""Trains a small GPT on the CPU under torch.profiler, with delays put where the caller asks: a program to diagnose.

Started alone, or by torchrun on gloo ranks (data parallel with the model whole or sharded, or a pipeline of two
stages). Each rank writes rank-N.json into --folder. A delay is a sleep, or for `compute` a loop of matmuls that takes
as long; each rank writes what it really injected, as nanoseconds per step, into injected-N.json.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from descent import Descent
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 256, 64, 128, 4, 2, 4
WARMUP, ACTIVE = 2, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, context, _ = x.shape
        mixed = self.query_key_value(self.norm_1(x)).view(batch, context, HEADS, -1).transpose(1, 2)
        query, key, value = mixed.chunk(3, dim=-1)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(x.shape))
        widened: Tensor = functional.gelu(self.up(self.norm_2(x)))
        output: Tensor = x + self.down(widened)
        return output


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.tokens(tokens)
        return embedded


def layers() -> list[nn.Module]:
    return [Embedding(), *(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)]


def loss_of(logits: Tensor, tokens: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class Delay:
    """Sleeps, or computes for as long, in steps of the window, and remembers how long it really took."""

    def __init__(self, where: str, delay_ms: float) -> None:
        self.where, self.delay_s = where, delay_ms / 1000
        self.taken_ns: list[int] = []
        self._warmups = WARMUP
        self._matrix = torch.rand(512, 512)  # a product takes long against what lies between two

    def at(self, place: str) -> None:
        if place != self.where:
            return
        if self._warmups:
            self._warmups -= 1
            return
        begin = time.perf_counter_ns()
        if place == "compute":
            while time.perf_counter_ns() - begin < self.delay_s * 1e9:
                torch.mm(self._matrix, self._matrix)
        else:
            time.sleep(self.delay_s)
        self.taken_ns.append(time.perf_counter_ns() - begin)


class Tokens(Dataset[Tensor]):
    """Batches; the delay of a loader is here."""

    def __init__(self, delay: Delay) -> None:
        self.delay = delay

    def __len__(self) -> int:
        return WARMUP + ACTIVE

    def __getitem__(self, index: int) -> Tensor:
        self.delay.at("loader")
        return torch.randint(VOCABULARY, (BATCH, CONTEXT), generator=torch.Generator().manual_seed(index))


def wrapped(parallel: str) -> nn.Module:
    """The model, on all ranks whole (DDP), sharded (FSDP), or alone."""
    model = nn.Sequential(*layers())
    if parallel == "sharded":
        from torch.distributed.device_mesh import init_device_mesh  # which loads the compiler, as the other one does
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in (*model, model):
            fully_shard(layer, mesh=mesh)
    return nn.parallel.DistributedDataParallel(model) if parallel == "whole" else model


def train(delay: Delay, profiler: profile, *, parallel: str, passes: int) -> None:
    """`passes` backward passes before each step of the optimizer, all of which exchange gradients."""
    model = wrapped(parallel)
    optimizer = Descent(model.parameters(), lr=1e-3)
    for tokens in DataLoader(Tokens(delay), batch_size=None):
        delay.at("host")
        delay.at("compute")
        for part in tokens.chunk(passes):
            loss = loss_of(model(part), part)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        profiler.step()


def train_pipeline(delay: Delay, profiler: profile) -> None:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank = dist.get_rank()
    half = len(layers()) // 2
    torch.manual_seed(0)
    every = layers()
    stage = PipelineStage(nn.Sequential(*(every[:half] if rank == 0 else every[half:])), rank, 2, torch.device("cpu"))
    pipeline = ScheduleGPipe(stage, n_microbatches=4, loss_fn=loss_of)
    for tokens in DataLoader(Tokens(delay), batch_size=None):
        delay.at("host")
        if rank == 0:
            pipeline.step(tokens)
        else:
            pipeline.step(target=tokens)
        profiler.step()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--where", choices=("nowhere", "loader", "host", "compute"), default="nowhere")
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--slow-rank", type=int, default=0)
    parser.add_argument("--pipeline", action="store_true")
    parser.add_argument("--sharded", action="store_true")
    parser.add_argument("--passes", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    delay = Delay(options.where if rank == options.slow_rank else "nowhere", options.delay_ms)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=WARMUP, active=ACTIVE, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(options.folder / f"rank-{rank}.json")),
        record_shapes=True,
        acc_events=True,
    ) as profiler:
        if options.pipeline:
            train_pipeline(delay, profiler)
        else:
            parallel = "" if world == 1 else "sharded" if options.sharded else "whole"
            train(delay, profiler, parallel=parallel, passes=options.passes)
    (options.folder / f"injected-{rank}.json").write_text(json.dumps(delay.taken_ns))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
