"""What is private in a text is found by its shape, and names that a performance engineer needs are left alone."""

import random
import string
from time import process_time

import pytest

from redline.report.redaction.private import (
    Private,
    is_drawn_by_lot,
    owners,
    without_paths,
    without_people_and_machines,
    without_secrets,
)  # fmt: skip


def mark(kind: Private, _: str) -> str:
    return f"<{kind}-0000>"


def cleaned(text: str) -> str:
    return without_people_and_machines(without_secrets(without_paths(text, mark), mark), mark)


@pytest.mark.parametrize(
    "token",
    [
        "sk-proj-abcDEF123456ghiJKL",
        "sk-ant-api03-Zz9Yy8Xx7Ww6",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0abcdefghijkl_mnop",
        "glpat-abcdefABCDEF12345678",
        "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefABCDEF",
        "AIzaSyA1bcdefghijklmnopqrstuvwxyz123456",
        "nvapi-abcdefghijklmnop1234",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
        "wJ2lrXUtnF9MI/K7MDeNG/bPxRf4CYe7AmPq3kBz",
        "https://bob:hunter2@git.example.com/x.git",
    ],
)
@pytest.mark.parametrize("around", ["{}", "run {} now", "region[{}]", "a={},b", "x: '{}'", "({})"])
def test_tokens(token: str, around: str) -> None:
    found = cleaned(around.format(token))
    assert token not in found
    assert found == around.format("<secret-0000>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=hunter2 and on", "password=<secret-0000> and on"),
        ("PGPASSWORD: 'two words'", "PGPASSWORD: '<secret-0000>'"),
        ("HF_TOKEN=abc", "HF_TOKEN=<secret-0000>"),
        ("AWS_SECRET_ACCESS_KEY=abc/def", "AWS_SECRET_ACCESS_KEY=<secret-0000>"),
        ('{"api_key": "abc"}', '{"api_key": "<secret-0000>"}'),
        ("step[customer=ACME token=sk-1]", "step[customer=<secret-0000> token=<secret-0000>]"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer <secret-0000>"),
        ("ask jane.doe+x@mail.acme.co.uk.", "ask <e-mail-0000>."),
        ("user=alice host=gpu-17", "user=<user-0000> host=<host-0000>"),
        ("tcp://10.1.2.3:29500", "tcp://<address-0000>:29500"),
        ("from fe80::1ff:fe23:4567:890a to 2001:db8::1", "from <address-0000> to <address-0000>"),
        ("aa:bb:cc:dd:ee:ff", "<address-0000>"),
        ("on gpu-17.train.acme.internal:8080", "on <host-0000>:8080"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "<secret-0000>"),
    ],
)
def test_other_shapes(text: str, expected: str) -> None:
    assert cleaned(text) == expected


def test_a_token_that_was_cut_with_its_name_goes_as_well() -> None:
    assert cleaned("prefix sk-ab...") == "prefix <secret-0000>..."
    assert cleaned("prefix ghp_...") == "prefix <secret-0000>..."


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x",
        "Cijk_Alik_Bljk_HHS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1_AFEM1",
        "triton_poi_fused__to_copy_add_mul_native_layer_norm_12",
        "triton_red_fused_0d1d2d3de4de5c7ymz5yzhq2k3",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
        "MaxPool2DWithIndicesBackward0",
        "winogradWgradDelta4x4",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "cpyoywyor7pewuvkgryjz664ot7u6ch677iilwoaxcvcjey24f2o.py(159): call",
        "3fa29c0b7d1e4f5a6b7c8d9e0f1a2b3c4d5e6f70",
        "torch/nn/modules/module.py(1751): _call_impl",
        "Optimizer.step#AdamW.step",
        "step[DECODE bs=32]",
        "execute_context_0(0)_generation_32(32)",
        "## Call CompiledFxGraph fhwfbs5rzkt4jrjpnnkpfrhbnkbmlzazdkzpjiuggk4tpsmrzmlv ##",
        "num_tokens=128 max_token=4096 token=17",
        "backward pass: layer3",
        "secret::detail::kernel",
        "PyTorch 2.13.0 CUDA 12.4, NCCL 2.21.5",
        "127.0.0.1",
        "1/2 of a/b and/or c",
        "<built-in method apply of FunctionMeta object at 0x7f3c5c0>",
    ],
)
def test_names_that_are_needed_stay(name: str) -> None:
    assert cleaned(name) == name


def test_most_words_drawn_by_lot_are_known() -> None:
    lot = random.Random(1)
    for letters in (string.ascii_letters + string.digits, string.ascii_letters + string.digits + "-_"):
        words = ["".join(lot.choices(letters, k=32)) for _ in range(1000)]
        assert sum(map(is_drawn_by_lot, words)) > 940


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/opt/venv/lib/python3.11/site-packages/torch/nn/x.py(3): f", "torch/nn/x.py(3): f"),
        ("/usr/lib/python3/dist-packages/numpy/a.py(3): f", "numpy/a.py(3): f"),
        ("/usr/lib/python3.11/threading.py(1002): _bootstrap", "threading.py(1002): _bootstrap"),
        ("/home/alice/acme run/train.py(12): main", "<folder-0000>/train.py(12): main"),
        ("~alice/x/train.py(12): main", "<folder-0000>/train.py(12): main"),
        (r"C:\Users\bob\x\train.py(1): main", "<folder-0000>/train.py(1): main"),
        (r"see \\server\share\x.txt", "see <folder-0000>/x.txt"),
        ("cannot open /data/acme/run.json: gone", "cannot open <folder-0000>/run.json: gone"),
        ("PATH=/opt/acme/bin:/home/bob/bin", "PATH=<folder-0000>/bin:<folder-0000>/bin"),
        ("s3://acme-models/run7/w.pt", "<folder-0000>/w.pt"),
        ("file:///home/alice/x.json", "<folder-0000>/x.json"),
        ("see https://github.com/pytorch/pytorch", "see https://github.com/pytorch/pytorch"),
    ],
)
def test_paths(text: str, expected: str) -> None:
    assert without_paths(text, mark) == expected


def test_owners_of_home_folders() -> None:
    assert list(owners("/home/alice/x and /Users/Bob.Smith/y, home/carol")) == ["alice", "Bob.Smith", "carol"]


PIECES = [
    "_",
    "a_",
    "-",
    "sk-",
    "sk-a-",
    "_sk-",
    "eyJ-",
    "eyJ.",
    "a.",
    "a@",
    "password",
    "token=",
    "x=",
    "/a",
    "~",
    "<",
]
PIECES += ["1.", "a:", "Aa1", "C:\\a", '"secret', "fe80:", "user=", " ", "-----BEGIN "]


@pytest.mark.parametrize("piece", PIECES)
def test_no_name_takes_long(piece: str) -> None:
    """A name of a hundred thousand letters that begins like something private again and again."""
    start_s = process_time()
    cleaned(piece * (100_000 // len(piece)))
    assert process_time() - start_s < 3
