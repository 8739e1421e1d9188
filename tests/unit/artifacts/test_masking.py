"""Secrets in command lines, messages and names are masked; options and names that a performance engineer needs stay."""

import json
import shlex
from time import process_time

import pytest

from redline.artifacts.masking import MASK, JsonMasker, masked, masked_text, masked_texts, masked_value

# Each with what must be gone. Written before the patterns were tuned, as is the list of what stays.
SECRET_ARGUMENTS = [
    ("--api-key sk-proj-abc123DEF456ghi789", "sk-proj-abc123DEF456ghi789"),
    ("--api_key=0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"),
    ("--apikey hunter2", "hunter2"),
    ("--openai-api-key hunter2", "hunter2"),
    ("--password=hunter2", "hunter2"),
    ("--password hunter2", "hunter2"),
    ("--password 12345678", "12345678"),
    ("--db-password 'two words'", "two words"),
    ("--db.password=hunter2", "hunter2"),
    ("--passwd hunter2", "hunter2"),
    ("--passphrase 'correct horse battery staple'", "correct horse battery staple"),
    ("--token X9a", "X9a"),
    ("--token=hunter2", "hunter2"),
    ("--hf-token hunter2", "hunter2"),
    ("--hf_token hunter2", "hunter2"),
    ("--hub_token=hunter2", "hunter2"),
    ("--push_to_hub_token hunter2", "hunter2"),
    ("--auth-token hunter2", "hunter2"),
    ("--accessToken hunter2", "hunter2"),
    ("--wandb_api_key=hunter2", "hunter2"),
    ("--wandb-key 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c", "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c"),
    ("--key AbC123xYz987QwErTy456", "AbC123xYz987QwErTy456"),
    ("--client-secret hunter2", "hunter2"),
    ("--secret hunter2", "hunter2"),
    ("--aws-secret-access-key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("--aws-access-key-id AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("--credentials hunter2", "hunter2"),
    ("--private-key hunter2", "hunter2"),
    ("-p ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
    ("-t hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567", "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"),
    ("HF_TOKEN=hunter2 python train.py", "hunter2"),
    ("WANDB_API_KEY=0123456789abcdef", "0123456789abcdef"),
    ("env OPENAI_API_KEY=hunter2 python", "hunter2"),
    ("PGPASSWORD=hunter2", "hunter2"),
    ("model.hub.token=hunter2", "hunter2"),
    ("+logger.wandb.api_key=hunter2", "hunter2"),
    ("--url https://bob:hunter2@git.example.com/x.git", "hunter2"),
    ("--db postgresql://bob:hunter2@db:5432/runs", "hunter2"),
    ("--store redis://:hunter2@cache:6379/0", "hunter2"),
    ("--repo https://ghx7Yt0ken99@git.example.com/x.git", "ghx7Yt0ken99"),
    ("--data https://bucket.example.com/x.tar?token=hunter2&part=3", "hunter2"),
    ("--data 'https://b.example.com/x?X-Amz-Credential=hunter2&X-Amz-Signature=0f1e2d3c4b5a6978'", "0f1e2d3c4b5a6978"),
    ("--data 'https://b.example.com/x?sv=2024-01-01&sig=aB3%2Fq9Zt7LmQ2wE5%3D'", "aB3%2Fq9Zt7LmQ2wE5%3D"),
    ("--header 'Authorization: Bearer abc.def-123'", "abc.def-123"),
    ("--header 'Authorization: Basic Ym9iOmh1bnRlcjI='", "Ym9iOmh1bnRlcjI="),
    ("--header 'X-Api-Key: hunter2'", "hunter2"),
    ("""--config '{"api_key": "hunter2", "lr": 0.1}'""", "hunter2"),
    ("""--config "{'password': 'hunter2'}" """, "hunter2"),
    (
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
        "eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    ),
    ("xoxb-123456789012-abcdefABCDEF", "123456789012-abcdefABCDEF"),
    ("AIzaSyA1bcdefghijklmnopqrstuvwxyz123456", "AIzaSyA1bcdefghijklmnopqrstuvwxyz123456"),
    ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "4eC39HqLyjWDarjtT1zdp7dc"),
    ("nvapi-abcdefghijklmnop1234", "abcdefghijklmnop1234"),
    ("glpat-abcdefABCDEF12345678", "abcdefABCDEF12345678"),
    ("'-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----'", "MIIEow"),
]
SECRET_NAMES = [
    ("token=sk-proj-abc123DEF456ghi789", "sk-proj-abc123DEF456ghi789"),
    ("step[token=hunter2hunter2 rank=3]", "hunter2hunter2"),
    ("load password: hunter2", "hunter2"),
    ("load token=hunter2hunter2", "hunter2hunter2"),
    ("fetch(https://bob:hunter2@git.example.com/x.git)", "hunter2"),
    ("secret=hunter2hunter2", "hunter2hunter2"),
]
KEPT_ARGUMENTS = [
    "--tokens 1e9", "--tokenizer llama", "--tokenizer-model /data/t.model", "--max-token-length 512", "--key-padding",
    "--key-padding mask", "--seed 3", "--max-tokens=4096", "--token-limit 5", "--num-tokens 1e12",
    "--tokens-per-batch 4M", "--train-tokens 300B", "--pad-token 0", "--pad_token '<pad>'", "--eos-token '</s>'",
    "--eos-token-id 2", "--image-token-id 32000", "--special-tokens a b c",
    "--tokenizer_name_or_path meta-llama/Llama-3.1-8B",
    "--token-embedding-dim 4096", "--token-dropping", "--drop-tokens", "--vocab-size 32000", "--num-key-value-heads 8",
    "--num-query-groups 8", "--kv-channels 128", "--key-value-dim 64", "--key query", "--keys a,b,c", "--hotkey ctrl",
    "--primary-key id", "--sort-key length", "--monkey patch", "--keyboard us", "--tokenize", "--bypass checks",
    "--pass 3", "--passes 2", "--num-passes=4", "--compass north", "--use-auth-token true", "--trust-remote-code",
    "--password-file /run/secrets/db", "--token-file ~/.cache/hf", "--secret-name train/db", "--authors a,b",
    "--credentials-file creds.json", "--api-key-env OPENAI_API_KEY", "--token $HF_TOKEN", "--token=${HF_TOKEN}",
    "--learning-rate 3e-4", "--model /data/models/llama", "--config configs/pretrain.yaml", "--run-id 20261116-1107",
    "--rdzv-id 4711", "--rdzv-endpoint node1:29500", "--dataset 'c4/en:train'", "--url https://example.com/a?page=3",
    "--remote ssh://git@example.com/repo", "--bucket s3://bucket/key/path", "--store tcp://10.0.0.1:29500",
    "--hidden-size 4096", "--sigmoid-loss", "--signature-name serving_default", "--checkpoint step-0012000",
    "--commit 3fa29c0b7d1e4f5a6b7c8d9e0f1a2b3c4d5e6f70", "--task-name sk-learn-baseline", "--desk-lamp on",
    "PWD=/home/me/work", "OMP_NUM_THREADS=8", "TOKENIZERS_PARALLELISM=false", "NCCL_DEBUG=INFO",
    "MASTER_ADDR=node1 MASTER_PORT=29500", "--cookiecutter x", "--session-length 2048", "--basic auth", "-p 8080",
    "--max-new-token 64", "--stop-token 2", "--mask-token '[MASK]'", "--bos_token=1", "--next-token-loss",
    "--key-file server.key", "--public-key id.pub", "--secretary jane",
    "torch==2.13.0 PyJWT==2.3.0", "--author hf_user", "--tag hf_internal_testing",
]  # fmt: skip
KEPT_NAMES = [
    "num_tokens=128 max_token=4096 token=17", "secret::detail::kernel", "backward pass: layer3", "token: the",
    "KeyPadding(key=3, value=4)", "execute_context_0(0)_generation_32(32)", "step[DECODE bs=32]",
    "triton_red_fused_0d1d2d3de4de5c7ymz5yzhq2k3", "Optimizer.step#AdamW.step", "aten::_scaled_dot_product_attention",
    "at::native::(anonymous namespace)::sigmoid_kernel", "/opt/venv/token/train.py(12): key=lambda", "key: value",
    "/etc/passwd: outside of the folders",
    "torch/nn/modules/activation.py(1241): forward key_padding_mask=None", "tokenization_llama.py(88): __init__",
    "dict[key=embedding.weight]", "state_dict key=layers.11.self_attn.q_proj.weight", "KEY=layers_11_attn_q_proj",
]  # fmt: skip


@pytest.mark.parametrize(("typed", "secret"), SECRET_ARGUMENTS, ids=[typed for typed, _ in SECRET_ARGUMENTS])
def test_a_secret_argument_is_masked(typed: str, secret: str) -> None:
    words = masked_text(["train.py", *shlex.split(typed), "--seed", "3"])
    assert secret not in " ".join(words)
    assert MASK in " ".join(words)
    assert (words[0], words[-2:]) == ("train.py", ["--seed", "3"])


@pytest.mark.parametrize(
    ("text", "secret"), [*SECRET_ARGUMENTS, *SECRET_NAMES], ids=[text for text, _ in (*SECRET_ARGUMENTS, *SECRET_NAMES)]
)
def test_a_secret_in_a_text_is_masked(text: str, secret: str) -> None:
    """As an error quotes arguments, or a range of a trace is named."""
    found = masked(f"unrecognized arguments: {text} --seed 3")
    assert secret not in found
    assert MASK in found
    assert found.endswith("--seed 3")
    assert masked(found) == found


@pytest.mark.parametrize("typed", KEPT_ARGUMENTS)
def test_other_arguments_stay(typed: str) -> None:
    words = ["train.py", *shlex.split(typed), "--seed", "3"]
    assert masked_text(words) == words
    assert masked(typed) == typed


@pytest.mark.parametrize("name", KEPT_NAMES)
def test_other_names_stay(name: str) -> None:
    assert masked(name) == name


@pytest.mark.parametrize("length", [10_000, 20_000])
@pytest.mark.parametrize(
    "unit", ["a", "-", "a-", "--key ", 'key="', "token=", "://", "eyJ.", "sk-", "pass: '", "https://"]
)
def test_a_long_text_takes_no_long_time(unit: str, length: int) -> None:
    begin = process_time()
    masked(unit * (length // len(unit)))
    assert process_time() - begin < 2


def test_many_texts_are_masked_as_each_of_them() -> None:
    texts = [*KEPT_NAMES, *(text for text, _ in SECRET_NAMES), "", "gemm"]
    assert masked_texts(texts) == [masked(text) for text in texts]


# --- JSON -------------------------------------------------------------------------------------------------------------

EVENTS: list[dict[str, object]] = [
    {"name": "token=sk-proj-abc123DEF456ghi789", "ts": 1.5, "args": {"External id": 7, "Input Dims": [[2, 3]]}},
    {"name": 'say "token=hunter2" \u2028 \n', "args": {"note": '{"api_key": "hunter2", "a": 1}'}},
    {"HF_TOKEN": "hunter2", "api_key": "hunter2", "pad_token": "<pad>", "token": 5, "environment": ["TOKEN=hunter2"]},
    {"path": "C:\\x\\token=hunter2"},
    {"name": "aten::mm", "args": {"Concrete Inputs": ["", "key"], "url": "https://bob:hunter2@example.com/x"}},
]


def passed_through(text: bytes, piece_bytes: int) -> bytes:
    masker = JsonMasker()
    pieces = [masker.add(text[at : at + piece_bytes]) for at in range(0, len(text), piece_bytes)]
    return b"".join((*pieces, masker.end()))


@pytest.mark.parametrize("piece_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("indent", [None, 1])
def test_json_in_pieces_stays_json_without_secrets(piece_bytes: int, indent: int | None) -> None:
    text = ("[" + ",\n".join(json.dumps(event, indent=indent) for event in EVENTS) + "]").encode()
    found = passed_through(text, piece_bytes)
    assert b"hunter2" not in found
    assert b"sk-proj" not in found
    assert json.loads(found)[0] == {**EVENTS[0], "name": f"token={MASK}"}
    assert [list(event) for event in json.loads(found)] == [list(event) for event in EVENTS]


def test_json_without_secrets_passes_byte_for_byte() -> None:
    text = b'{"name": "token_embedding key", "x": 1.50}\n' * 100 + b'\xff"passing \\" quote"\n{"cut": "tok'
    assert passed_through(text, 64) == text


def test_names_whose_quotes_the_profiler_did_not_escape_are_masked_too() -> None:
    text = b'"name": "--config={"db_password": "hunter2", "lr": 0.1}",\n'
    assert passed_through(text, 1 << 20) == text.replace(b"hunter2", MASK.encode())


def test_decoded_values_are_masked_by_their_names() -> None:
    found = masked_value({"arguments": ("x.py", "--token", "hunter2"), "facts": {"password": "hunter2", "world": 2}})
    assert found == {"arguments": ("x.py", "--token", MASK), "facts": {"password": MASK, "world": 2}}
