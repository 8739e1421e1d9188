"""A vLLM server with a tiny random model on the loopback, watched by `redline run` or not, and its benchmark client."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PYTHON = os.environ.get("REDLINE_VLLM_PYTHON")
CLIENT = Path(__file__).with_name("vllm_load.py")
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
SIZES: dict[str, dict[str, int]] = {
    "tiny": {},
    "small": {
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "vocab_size": 8192,
    },
}
SIZES["medium"] = {
    **SIZES["small"],
    "hidden_size": 1536,
    "intermediate_size": 4096,
    "num_hidden_layers": 10,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
}
SIZES["wordy"] = {**SIZES["small"], "vocab_size": 65536}
"""What differs from the tiny model."""
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "2",
}
_TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

words = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"w{number}": number for number in range(3, int(sys.argv[2]))}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
made.save_pretrained(sys.argv[1])
"""
_START_S = 600.0
_END_S = 60.0


def make_model(folder: Path, size: str = "tiny") -> Path:
    """Its configuration and a tokenizer of made-up words; weights are random. What is there already is kept."""
    config = {**MODEL, **SIZES[size]}
    words = (str(PYTHON), "-c", _TOKENIZER, str(folder), str(config["vocab_size"]))
    if not (folder / "tokenizer.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        subprocess.run(words, check=True, capture_output=True, env=_environment())
    return folder


@dataclass(frozen=True, kw_only=True)
class RunningServer:
    """A server that answers at this address; the process is the server's own, or that of `redline run`."""

    address: str
    process: subprocess.Popen[bytes]


@contextmanager
def server(
    model: Path,
    run: Path | None,
    *options: str,
    environment: Mapping[str, str] | None = None,
    watch: Sequence[str] = (),
) -> Iterator[RunningServer]:
    """Once it answers; with a folder `run`, it is watched, and the folder is whole once it has ended."""
    port = _free_port()
    program = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--load-format", "dummy"]
    program += ["--enforce-eager", "--max-model-len", "512", "--dtype", "bfloat16", "--host", "127.0.0.1"]
    watched = ["-m", "redline", "run", "-o", str(run), *watch, "--"] if run is not None else []
    log = (run or model).with_suffix(".log")
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [str(PYTHON), *watched, *program, *options, "--port", str(port)],
            env={**_environment(), **(environment or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_until_up(address, process, log)
            yield RunningServer(address=address, process=process)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def measure(address: str, model: Path, results: Path, *options: str) -> dict[str, object]:
    """Load by vLLM's own client; what it wrote of each request."""
    words: Sequence[str] = (
        *("--backend", "openai", "--base-url", address, "--model", str(model), "--tokenizer", str(model)),
        *("--dataset-name", "random", "--random-range-ratio", "0.5", "--ignore-eos", "--temperature", "0"),
        *("--num-warmups", "2"),  # an eager server computes nothing before the first request
        *("--save-result", "--save-detailed", "--result-filename", str(results)),
    )
    subprocess.run(
        [str(PYTHON), str(CLIENT), *words, *options],
        check=True,
        capture_output=True,
        env=_environment(),
        cwd=model.parent,
    )
    told: dict[str, object] = json.loads(results.read_text(encoding="utf-8"))
    return told


def _environment() -> dict[str, str]:
    return {**os.environ, **ENVIRONMENT}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _wait_until_up(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(log.read_text(encoding="utf-8")[-2000:])
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError(f"not up after {_START_S:.0f} s: {log.read_text(encoding='utf-8')[-2000:]}")
