"""Two optimizer steps under a DeepSpeed config, on gloo; the last line says what DeepSpeed made of it."""

import argparse

import deepspeed
import torch
from torch import nn

STEPS, SEQUENCE, TOKENS = 2, 16, 64


def main() -> None:
    options = deepspeed.add_config_arguments(argparse.ArgumentParser()).parse_args()
    deepspeed.init_distributed(dist_backend="gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(TOKENS, 32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, TOKENS))
    engine = deepspeed.initialize(args=options, model=model, optimizer=torch.optim.AdamW(model.parameters()))[0]
    for _ in range(STEPS * engine.gradient_accumulation_steps()):
        text = torch.randint(0, TOKENS, (engine.train_micro_batch_size_per_gpu(), SEQUENCE))
        engine.backward(nn.functional.cross_entropy(engine(text).flatten(0, 1).float(), text.flatten()))
        engine.step()
    print(f"steps={engine.global_steps} batch={engine.train_batch_size()} zero={engine.zero_optimization_stage()}")


main()
