"""`examples/gpt2_flaws.py` with the lines that DeepSpeed's autotuner asks for.

deepspeed --autotuning run bench/tuning/other_tools/deepspeed_gpt2.py --steps 20 \
    --deepspeed --deepspeed_config bench/tuning/other_tools/deepspeed_gpt2.json

DeepSpeed brings its own loop, loader and optimizer, so four of the ten flaws are gone before anything is tuned.
"""

import argparse
import sys
from pathlib import Path

import deepspeed
import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from examples.gpt2_flaws import GPT2, Sentences


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--local_rank", type=int, default=0)
    options = deepspeed.add_config_arguments(parser).parse_args()
    torch.manual_seed(0)
    model = GPT2()
    engine, _, loader, _ = deepspeed.initialize(
        args=options, model=model, model_parameters=model.parameters(), training_data=Sentences(1 << 20)
    )
    for step, batch in enumerate(loader, start=1):
        tokens = batch.to(engine.device)
        logits = engine(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        engine.backward(loss)
        engine.step()
        if step == options.steps:
            break
    print(f"done: {options.steps} steps")


if __name__ == "__main__":
    main()
