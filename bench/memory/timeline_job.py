"""Trains a model of `tests/e2e/programs/memory_models.py` and exports torch's own timeline of six of its steps."""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from tests.e2e.programs.memory_models import BATCH, LENGTH, MODELS, WORDS, held, optimizer_of

STEPS = range(4, 10)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=MODELS)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True)
    model = MODELS[options.kind]()
    optimizer = optimizer_of(options.kind, model)
    updated_ns = 0
    for step in range(STEPS.stop):
        if step == STEPS.start:
            profiler.start()
        tokens = torch.randint(WORDS, (BATCH, LENGTH))
        logits = model(tokens)
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        updated_ns = time.time_ns()
        optimizer.zero_grad()
    profiler.stop()
    rank = os.environ.get("RANK", "0")
    told = {"updated_ns": updated_ns, "held": held(model, optimizer)}
    (options.out / f"{options.kind}.{rank}.json").write_text(json.dumps(told))
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # it will be gone in a version to come
        profiler.export_memory_timeline(str(options.out / f"{options.kind}.{rank}.raw.json.gz"), device="cpu")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
