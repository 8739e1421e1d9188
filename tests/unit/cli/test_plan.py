"""`redline plan` on the command line: what it prints and writes, and what it says to nonsense."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from redline.cli import main
from redline.verbs import plan as verb
from tests.support.made_plans import nothing_fits, plan

JOB = {"--model": "llama-3.1-8b", "--machine": "H100-SXM5-80GB", "--gpus": "64", "--sequence": "8192", "--batch": "512"}


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDLINE_LANG", raising=False)
    return tmp_path


def train(*more: str, **changed: str | None) -> list[str]:
    """The command of a small job; what is given as None is left out."""
    given = {**JOB, **{f"--{name}": value for name, value in changed.items()}}
    return [
        "plan",
        "train",
        *(word for name, value in given.items() if value is not None for word in (name, value)),
        *more,
    ]


def refused(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    """What is said where nothing is done."""
    assert main(list(arguments)) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("redline: ")
    assert told.err.count("\n") <= 2
    return told.err.removeprefix("redline: ")


# --- what is planned --------------------------------------------------------------------------------------------------


def test_a_plan_says_its_layout_its_time_and_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train()) == 0
    told = capsys.readouterr()
    assert told.err == ""
    for part in (
        "llama-3.1-8b on 64 H100-SXM5-80GB in bf16",
        "\nbest ",
        "80 % interval: ",
        "\nhow far to trust this\n",
    ):
        assert part in told.out


def test_json_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train("--json", "--tokens", "1T", "--price", "2", gpus="8,16")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["kind"] == "training-plan"
    assert [one["devices"] for one in record["sizes"]] == [8, 16]
    assert record["job"]["money"]["likely"] > 0


def test_what_is_given_is_fixed_and_the_rest_is_searched(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--tp 2,4 --pp 2 --zero 1 --recompute full --micro-batch 1 --schedule 1f1b --no-sequence-parallel --top 3"
    assert main(train("--json", "--accept-chance", "50%", *words.split())) == 0
    record = json.loads(capsys.readouterr().out)
    layouts = [one["layout"] for one in record["ranked"]]
    assert len(layouts) == 3
    assert {one["tp"] for one in layouts} <= {2, 4}
    assert {(one["pp"], one["zero"], one["recompute"], one["micro_batch"]) for one in layouts} == {(2, 1, "full", 1)}
    assert {one["sequence_parallel"] for one in layouts} == {0}
    assert record["accepted_chance"] == 0.5


def test_a_single_layout(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--dp 8 --tp 8 --pp 1 --cp 1 --zero 1 --offload 0.5 --no-flash --recompute none"
    assert main(train("--json", *words.split(), "--micro-batch", "1")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["considered"] == 1
    assert {name: record["best"]["layout"][name] for name in ("offload", "flash")} == {"offload": 0.5, "flash": 0}


def test_memory_of_software_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--dp 64 --tp 1 --pp 1 --cp 1 --zero 1 --micro-batch 1 --recompute full --json"
    assert main(train(*words.split())) == 0
    usual = json.loads(capsys.readouterr().out)["best"]["memory"]
    assert main(train(*words.split(), "--footprint", "moment_bytes=2,slack=0")) == 0
    own = json.loads(capsys.readouterr().out)["best"]["memory"]
    assert own["optimizer_bytes"] == usual["optimizer_bytes"] / 2  # 4 bytes of master copy and 2, not 8, of moments
    assert (own["allocator_bytes"], own["weights_bytes"]) == (0, usual["weights_bytes"])


def test_a_model_by_numbers_and_numbers_that_win_over_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = "--layers 4 --hidden 512 --heads 8 --vocab 1000 --ffn 2048 --tied --no-gate"
    assert main(train("--json", *numbers.split(), model=None, gpus="1", batch="8")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["parameters"] == 1000 * 512 + 4 * (4 * 512**2 + 2 * 512 * 2048) + 9 * 512
    assert main(train("--json", "--layers", "16")) == 0
    halved = json.loads(capsys.readouterr().out)["parameters"]
    assert 4e9 < halved < 5e9


def test_a_mixture_of_experts_by_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = (
        "--layers 4 --hidden 512 --heads 8 --vocab 1000 --ffn 1024 --experts 8 --experts-per-token 2 --dense-layers 1"
    )
    assert main(train("--json", *numbers.split(), model=None, gpus="8")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["parameters"] - record["active_parameters"] == 3 * 6 * 3 * 512 * 1024


def test_several_sizes_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train(gpus="8,7,16", batch="64")) == 0
    out = capsys.readouterr().out
    assert out.startswith("by number of GPUs\n  GPUs  best layout ")
    assert "\n  below: the plan for 16 GPUs\n\nllama-3.1-8b on 16 " in out
    assert main(train("--by", "cost", "--json", gpus="8,16", batch="64")) == 0
    assert json.loads(capsys.readouterr().out)["devices"] == 8


def test_sizes_that_cannot_run_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train("--tp", "8", gpus="12,16", batch="64")) == 0
    assert "\n  12 GPUs: tp 8: that does not divide 12 GPUs; give one of 1, 2, 3, 4, 6, 12\n" in capsys.readouterr().out
    assert refused(capsys, train("--tp", "8", gpus="12,20")).startswith(
        "no layout can run on any of these numbers of GPUs: tp 8: that does not divide 12 GPUs"
    )


def test_what_fits_comes_before_what_is_faster() -> None:
    small, large = plan(devices=8), nothing_fits()
    assert verb._merit(small, "speed") > verb._merit(large, "speed")


def test_a_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train("-o", "plan.html", "--lang", "zh")) == 0
    assert '<html lang="zh-CN">' in (folder / "plan.html").read_text()
    told = capsys.readouterr()
    assert told.err == "next: open plan.html in a browser\n"
    assert "最佳" in told.out
    assert main(train("-o", "plan.html", "-o", "plan.json", "-o", "plan.txt", "-q")) == 0  # ours, so replaced
    told = capsys.readouterr()
    assert told.err == ""
    assert (folder / "plan.txt").read_text() == told.out
    assert json.loads((folder / "plan.json").read_text())["kind"] == "training-plan"


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "plan: say first which kind: redline plan train"),
        (["--gpus", "8"], "plan: say first which kind: redline plan train"),
        (["trian"], "plan: there is no kind 'trian'; did you mean: redline plan train\n"),
        (["zebra"], "plan: there is no kind 'zebra'; there are: train"),
        (
            ["train"],
            "plan train: the following arguments are required: --model, --machine, --gpus, --batch or --batch-tokens, "
            "--sequence\n",
        ),
        (
            ["train", "--model", "own.py:net", "--gpus", "8"],
            "plan train: the following arguments are required: --machine, --batch or --batch-tokens\n",
        ),
    ],
)
def test_what_to_plan_comes_first(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, ["plan", *words]).startswith(message)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--gpus 0", "plan train: argument --gpus: '0' is not a number of 1 or more\n"),
        ("--gpus -4", "plan train: argument --gpus: '-4' is not a number of 1 or more\n"),
        ("--gpus 8,x", "plan train: argument --gpus: 'x' is not a number of 1 or more\n"),
        ("--batch -5", "plan train: argument --batch: '-5' is not a count; write a number such as 16384"),
        ("--sequence 1e15", "plan train: argument --sequence: '1e15' is more than a billion; check that number\n"),
        ("--gpus 9000000000", "plan train: argument --gpus: '9000000000' is more than a billion; check that number\n"),
        ("--kv-heads 5", "plan train: --kv-heads 5: that does not divide the 32 heads\n"),
        ("--experts 8", "plan train: --experts changes nothing: no layer of llama-3.1-8b has experts;\n"),
        ("--model mixtral-8x7b --experts-per-token 9", "plan train: --experts-per-token 9: there are 8 experts\n"),
        ("--batch 0", "plan train: argument --batch: '0' is not a number of 1 or more\n"),
        ("--batch-tokens 4M", "plan train: argument --batch-tokens: not allowed with argument --batch\n"),
        ("--nic-gbit 0", "plan train: argument --nic-gbit: '0' is not a number above 0\n"),
        ("--nic-gbit fast", "plan train: argument --nic-gbit: 'fast' is not a number\n"),
        ("--price nan", "plan train: argument --price: 'nan' is not a number\n"),
        ("--offload 2", "plan train: argument --offload: '2' is not a share; write a number from 0 to 1, or 20%\n"),
        ("--zero 4", "plan train: argument --zero: there is no '4'; there are: 0, 1, 2, 3\n"),
        ("--recompute some", "plan train: argument --recompute: there is no 'some'; there are: none, selective,"),
        ("--precision fp6", "plan train: argument --precision: invalid choice: 'fp6'"),
        ("--by luck", "plan train: argument --by: invalid choice: 'luck'"),
        ("--storage much", "plan train: argument --storage: 'much' is not a size"),
        ("--tp 7", "plan train: --tp 7: that does not divide 64 GPUs; give one of 1, 2, 4, 8, 16, 32, 64\n"),
        ("--tp 64", "plan train: --tp 64: that does not divide the 32 attention heads of the model; give one of 1, 2,"),
        ("--tp 7,3", "plan train: --tp 7,3: that does not divide 64 GPUs; "),
        ("--gpus 128 --tp 128", "plan train: --tp 128: that does not divide the 32 attention heads of the model; "),
        ("--pp 64", "plan train: --pp 64: the model has only 32 layers to deal to stages\n"),
        ("--cp 16", "plan train: --cp 16: pieces of a sequence below 1024 tokens hide no traffic; give at most 8\n"),
        ("--gpus 128 --cp 128 --sequence 1M --batch 1", "plan train: --cp 128: nobody has measured more than 64"),
        ("--gpus 7 --cp 7 --batch 7", "plan train: --cp 7: 8192 tokens cannot be cut into 14 equal pieces; change it"),
        ("--stack nanotron --zero 3", "plan train: --zero 3: the stack nanotron has only 0,1; leave it out, or plan"),
        ("--stack composer --recompute selective", "plan train: --recompute selective: the stack composer has only"),
        ("--ep 4", "plan train: --ep 4: the model has no experts\n"),
        ("--model mixtral-8x7b --ep 16", "plan train: --ep 16: that does not divide the 8 experts of a layer; "),
        ("--dp 64 --batch 96", "plan train: --dp 64: a batch of 96 sequences cannot be dealt to 64 copies"),
        ("--micro-batch 3", "plan train: --micro-batch 3: a batch of 512 sequences is no multiple of that; "),
        ("--tp 8 --pp 16", "tp 8 x pp 16 are 128 GPUs, and there are 64; change one of them\n"),
        ("--dp 8 --tp 2 --pp 1 --cp 1", "dp 8 x tp 2 x pp 1 x cp 1 are 16 GPUs, and there are 64; change one"),
        ("--shard 3", "no layout of 64 devices has shard 3"),
        ("--model llama-9", "no model is known as 'llama-9'"),
        ("--model there.json", "cannot read there.json as the config.json of a Hugging Face model: No such"),
        ("--machine H100", "'H100' could be H100-PCIe-80GB, "),
        ("--machine abacus", "there is no record 'abacus' in the catalogue; "),
        ("--stack abacus", "there is no software stack 'abacus'\n"),
        ("--footprint abacus=2", "there is no 'abacus' in a footprint\n"),
        ("--footprint slack", "plan train: argument --footprint: 'slack' is not of the form name=number, such as"),
        ("--footprint slack=much", "plan train: argument --footprint: 'much' is not a number\n"),
        ("--precision fp4", "H100-SXM5-80GB has no figure peak_flops_per_s.fp4"),
        ("--price 3", "plan train: --price is for the whole job; give the number of tokens to train on as well\n"),
        ("--tokens 15X", "plan train: argument --tokens: '15X' is not a count"),
        ("--tokens 1T --failures often", "no published failure rate is called 'often'"),
        ("--tokens 1T --failures -1", "failures per node and day must be a number of 0 or more, not -1\n"),
        ("--tokens 1T --recovery never", "no way to recover is called 'never'"),
        ("--tokens 1T --recovery 600,x", "a recovery of '600,x' makes no sense; give two times in seconds, such"),
        ("--tokens 1T --pue 0.5", "PUE is the power of the whole building"),
        ("-o page.pdf", "plan train: page.pdf: plan train writes .html, .json, .txt, .json.gz or .sh; give"),
        ("-o none/page.html", "cannot write none/page.html: the folder "),
        ("-o none/plan.json.gz", "cannot write none/plan.json.gz: the folder "),
    ],
)  # fmt: skip
def test_nonsense_is_answered_with_what_to_do(more: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, train(*more.split())).startswith(message)


def test_tokens_that_are_no_whole_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, train("--batch-tokens", "4M", batch=None))
    assert said == (
        "plan train: --batch-tokens 4,000,000 is no multiple of --sequence 8,192\n"
        "give the sequences themselves, such as --batch 512 (4,194,304 tokens)\n"
    )
    assert main(train("--batch-tokens", "4194304", "-q", batch=None)) == 0


def test_a_model_that_is_not_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, train("--layers", "4", model=None)) == (
        "plan train: --model is missing: give a known name or a config.json,\n"
        "or describe the model by numbers; missing: hidden, heads, vocab\n"
    )
    sparse = "--layers 4 --hidden 512 --heads 8 --vocab 1000 --experts 8"
    assert refused(capsys, train(*sparse.split(), model=None)).endswith("; missing: experts_per_token\n")


def test_a_config_that_is_no_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "config.json").write_text("layers: 4")
    assert refused(capsys, train(model="config.json")).startswith("config.json is damaged, or not the config.json")


def test_existing_files_are_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("plan.html", "plan.json.gz", "plan.txt"):
        (folder / name).write_text("old")
        assert refused(capsys, train("-o", name)).startswith(f"{name} already exists; use --force to replace it")
        assert (folder / name).read_text() == "old"


def test_recovery_and_failures_as_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--tokens 1T --failures 0.01 --recovery 600,6 --storage 100GB --pue 1.2 --json"
    assert main(train(*words.split())) == 0
    (case,) = json.loads(capsys.readouterr().out)["job"]["cases"]
    assert (case["failures"], case["recovery"], case["restart_s"]) == ("given", "given", 600)
    assert case["mean_time_between_failures_s"] == pytest.approx(86400 / (0.01 * 8))


# --- modules ----------------------------------------------------------------------------------------------------------

MODULE = Path(__file__).parents[3] / "examples" / "plan" / "network.py"


def module(*more: str) -> list[str]:
    given = {"model": f"{MODULE}:build", "gpus": "8", "sequence": None, "batch": "256"}
    return train(*more, **given)


def test_a_module_is_planned_in_samples(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    pytest.importorskip("torch")
    assert main(module("--tokens", "1M", "-o", "plan.html", "-o", "plan.json.gz", "-q")) == 0
    told = capsys.readouterr().out
    for part in ("256 samples per step", "samples/s,", "the whole job: 1.00 M samples"):
        assert part in told
    assert "token" not in told
    assert "80 % interval" not in told  # nobody has measured it
    assert "treat it as a guess" in told
    assert "samples/s/GPU" in (folder / "plan.html").read_text()
    assert main(module("--json")) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["unit"], record["tokens_per_step"], record["model"]) == ("samples", 256, "Sequential")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--tp 2", "plan train: --tp: a module of your own is planned with copies of it and ZeRO or FSDP"),
        (
            "--sequence 1024",
            "plan train: --sequence is for models of tokens; a module has samples: give the batch alone",
        ),
        ("--layers 4", "network.py:build builds the module itself; leave it out"),
    ],
)
def test_a_module_has_no_inside_and_no_tokens(more: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert message in refused(capsys, module(*more.split()))


def test_a_module_needs_its_function_and_torch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    assert "names no function. Give path.py:function" in refused(capsys, train(model="models.py"))
    monkeypatch.setattr("redline.verbs.plan.find_spec", lambda _: None)
    assert "torch is not installed here; install it as your machine needs it" in refused(capsys, module())


def test_a_batch_of_tokens_is_none_of_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    words = train("--batch-tokens", "4096", model=f"{MODULE}:build", gpus="8", sequence=None, batch=None)
    assert "--batch-tokens needs --sequence; a module of your own has samples: give --batch" in refused(capsys, words)


def test_a_model_needs_the_length_of_its_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    message = "plan train: --sequence is missing: how many tokens has a sequence, such as 4096?\n"
    assert refused(capsys, train(sequence=None)) == message
