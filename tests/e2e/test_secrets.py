"""Secrets in arguments, in the environment and in names reach the job, and nothing that Redline records or shows."""

import gzip
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from redline.cli import main
from tests.support.command_line import REDLINE, ROOT, environment

IN_ENVIRONMENT = "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"
ARGUMENTS = {
    "--api-key": "sk-proj-abc123DEF456ghi789",
    "--password": "correct horse battery",
    "--token": "wintermute77",
    "--repository": "https://bob:sprocket99@git.example.com/x.git",
    "--data": "https://bucket.example.com/x.tar?token=moonshot42&part=3",
    "--header": "Authorization: Bearer abcdefghij.klm-123",
    "--config": '{"db_password": "gearbox31", "lr": 0.1}',
    "-p": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "--aws": "AKIAIOSFODNN7EXAMPLE",
    "--jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "--pem": "-----BEGIN RSA PRIVATE KEY-----\\nMIIEowIBAAKCAQEA\\n-----END RSA PRIVATE KEY-----",
    "--hub": f"HF_TOKEN={IN_ENVIRONMENT}",
    "--last": IN_ENVIRONMENT,
}
SECRETS = [
    "sk-proj-abc123DEF456ghi789", "wintermute77", "sprocket99", "moonshot42", "abcdefghij.klm-123", "gearbox31",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "AKIAIOSFODNN7EXAMPLE", "eyJzdWIiOiIxMjM0In0", "MIIEowIBAAKCAQEA",
    IN_ENVIRONMENT,
]  # fmt: skip
OF_ARGUMENTS = ["horse battery"]  # in the name of a range, nothing tells where a password of several words ends


def content(path: Path) -> bytes:
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return zstandard.ZstdDecompressor().decompress(data)
    return data


def leaks(*texts: str | bytes) -> list[str]:
    whole = b"\n".join(text if isinstance(text, bytes) else text.encode() for text in texts)
    return [secret for secret in SECRETS if secret.encode() in whole]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("secrets") / "run"
    words = [word for pair in ARGUMENTS.items() for word in pair] + [f"--db-password={ARGUMENTS['--password']}"]
    told = {"EXPECTED_ARGUMENTS": "\n".join(words), "HF_TOKEN": IN_ENVIRONMENT, "WANDB_API_KEY": "gearbox31"}
    program = ROOT / "tests" / "e2e" / "programs" / "secretive.py"
    options = ("-o", str(folder), "--after", "2", "--steps", "2", "--diagnose", "--report", "--stacks")
    done = subprocess.run(
        [*REDLINE, "run", *options, "--", program.name, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=program.parent,
        env={**environment(), **told, "REDLINE_CACHE": str(folder.parent / "cache")},
    )
    assert done.returncode == 0, done.stderr
    return folder, done


def test_no_file_of_a_run_and_no_line_of_it_holds_a_secret(ran: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = ran
    assert "secretive.py --api-key *** --password ***" in done.stderr
    assert leaks(done.stdout, done.stderr) == []
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {"run.json", "report.html", "rank-0.trace.json.gz"} <= {path.name for path in files}
    for path in files:
        assert leaks(content(path)) == [], path
    record = (folder / "run.json").read_text()
    assert [secret for secret in OF_ARGUMENTS if secret in done.stderr + record] == []
    assert b"load token=***" in content(folder / "window-1" / "rank-0.trace.json.gz")


@pytest.mark.parametrize(
    "arguments",
    [
        "diagnose {run} -v",
        "diagnose {run} -o x.json",
        "diagnose {run} -o x.md",
        "diagnose {run} -o x.html",
        "diagnose {run} --kernels -o x.csv",
        "inspect {run} --json",
        "merge {run} -o x.json",
        "digest {run} -o x",
    ],
)
def test_no_report_of_a_run_holds_a_secret(
    arguments: str,
    ran: tuple[Path, subprocess.CompletedProcess[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments.format(run=ran[0]).split()) == 0
    told = capsys.readouterr()
    assert leaks(told.out, told.err) == []
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or leaks(content(path)) == [], path


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--api-key", "sk-proj-abc123DEF456ghi789", "train.py"],
        ["run", "--", "https://bob:sprocket99@git.example.com/train.py"],
        ["diagnose", "x.json", "--token=wintermute77"],
        ["diagnose", "password=wintermute77"],
        ["--token=wintermute77"],
        ["token=wintermute77"],
    ],
)
def test_no_error_quotes_a_secret(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    told = capsys.readouterr()
    assert "***" in told.err
    assert leaks(told.out, told.err) == []


# --- files that teams share -------------------------------------------------------------------------------------------


def under(umask: int) -> Callable[[], object]:
    return lambda: os.umask(umask)


@pytest.mark.parametrize(("umask", "of_file", "of_folder"), [(0o002, 0o664, 0o775), (0o077, 0o600, 0o700)])
def test_files_and_folders_follow_the_umask(umask: int, of_file: int, of_folder: int, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import redline\nfor _ in range(5):\n    redline.step()\n")
    trace = ROOT / "tests" / "data" / "recorded" / "plain_loop.pt.trace.json.gz"
    for words in (
        ["run", "-o", "made/run", "--", "job.py"],
        ["digest", str(trace), "-o", "made/digests"],
        ["merge", str(trace), "-o", "made/merged.json.gz"],
        ["diagnose", str(trace), "-o", "made/report.html", "--with-trace"],
    ):
        subprocess.run(
            [*REDLINE, *words],
            check=True,
            capture_output=True,
            timeout=300,
            cwd=tmp_path,
            env=environment(),
            preexec_fn=under(umask),
        )
    made = [tmp_path / "made", *(tmp_path / "made").rglob("*")]
    assert len([path for path in made if path.is_file()]) >= 6
    for path in made:
        expected = of_folder if path.is_dir() else of_file
        assert path.stat().st_mode & 0o777 == expected, path
