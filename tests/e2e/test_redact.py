"""Secrets are planted wherever a trace has room for text; no output of `--redact` may hold one."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest
import zstandard

import redline
from redline.report.diagnose.raw_tables import COLUMNS, raw_rows
from redline.report.redaction.redactor import Redactor
from tests.support.command_line import run_redline
from tests.support.events import (
    DEVICE_PID,
    HOST_PID,
    MAIN_THREAD,
    collective,
    document,
    kernel,
    launch,
    op,
    region,
    span,
)
from tests.support.machines import PRODUCT
from tests.support.real_traces import RealTraces

HOST = "gpu-node17.acme-corp.example"
SECRETS = (
    HOST,
    "gpu-node17",
    "acme-corp",
    "wilhelmina",
    "zebra-project",  # a folder
    "hunter2hunter2",
    "sk-proj-abc123DEF456ghi789",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefABCDEF",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "wJ2lrXUtnF9MIK7MDeNGbPxRf4CYe7AmPq3kBz",
    "ACME-GmbH",
    "jane.doe@acme.example",
    "10.12.34.56",
    "2001:db8:85a3::8a2e:370:7334",
    "moonshot",  # the name of the trace, and of the file that is none
)
MASKED = {
    "hunter2hunter2",
    "sk-proj-abc123DEF456ghi789",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefABCDEF",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
}
FORMATS = ("text", "md", "json")
TABLES = ("--findings", "--kernels", "--collectives", "--ranks", "--steps", "--host")


def step(number: int, at: float) -> list[dict[str, object]]:
    """A step in whose every name something is hidden."""
    stack = f"/home/wilhelmina/zebra-project/train.py({number}): sk-proj-abc123DEF456ghi789"
    return [
        region(f"ProfilerStep#{number}", at, 1000),
        region("load customer=ACME-GmbH token=hunter2hunter2", at + 1, 900),
        region("wilhelmina mails jane.doe@acme.example", at + 2, 800),
        span("python_function", stack, at + 3, 700, args={"Python id": number, "Python parent id": None}),
        op("aten::mm ghp_16C7e42F292c6912E7710c838347Ae178B4a", at + 4, 100, **PRODUCT),
        op("aten::mm", at + 110, 100, **PRODUCT),
        launch(at + 5, 10 * number + 1),
        launch(at + 111, 10 * number + 2, name="cudaLaunchKernel hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"),
        kernel("gemm_AKIAIOSFODNN7EXAMPLE", at + 10, 50, correlation=10 * number + 1),
        kernel("kernel xoxb-123456789012-abcdefABCDEF", at + 120, 50, correlation=10 * number + 2),
        kernel("orphan wJ2lrXUtnF9MIK7MDeNGbPxRf4CYe7AmPq3kBz", at + 200, 50),
        collective(
            at + 300, 50, args={"Process Group Name": "pg gpu-node17", "Process Group Description": "wilhelmina"}
        ),
        op("connect tcp://10.12.34.56:29500 or [2001:db8:85a3::8a2e:370:7334]:80", at + 400, 500),
    ]


def trace(rank: int) -> bytes:
    events: list[object] = [event for number in range(1, 4) for event in step(number, 1000 * number)]
    names = {
        "process_name": "python wilhelmina",
        "process_labels": "wilhelmina@gpu-node17",
        "thread_name": "loader token=hunter2hunter2",
    }
    for name, text in names.items():
        for pid in (HOST_PID, DEVICE_PID):
            key = "labels" if name == "process_labels" else "name"
            events.append({"ph": "M", "name": name, "pid": pid, "tid": MAIN_THREAD, "ts": 0, "args": {key: text}})
    return document(
        events,
        rank=rank,
        world_size=2,
        host_name=HOST,
        traceName=f"/home/wilhelmina/zebra-project/moonshot{rank}.json",
        job_name="password=hunter2hunter2",
        deviceProperties=[{"id": 0, "name": "NVIDIA secret=hunter2hunter2", "totalGlobalMem": 80 << 30}],
        cuda_runtime_version="12040 token=hunter2hunter2",
        nccl_version="2.21.5-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home") / "wilhelmina" / "zebra-project" / HOST
    folder.mkdir(parents=True)
    for rank in range(2):
        (folder / f"moonshot{rank}.json").write_bytes(trace(rank))
    (folder / "moonshot-broken.json").write_text("<html> token=hunter2hunter2 /home/wilhelmina/x")
    return folder


def leaks(*texts: str) -> list[str]:
    whole = "\n".join(texts).lower()
    return [secret for secret in SECRETS if secret.lower() in whole]


def outputs(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_without_it_only_what_is_surely_a_secret_is_masked(folder: Path) -> None:
    """Else the tests below would prove nothing."""
    out, err = outputs(run_redline("diagnose", folder, "--json", "-v"))
    assert set(leaks(out, err)) == set(SECRETS) - MASKED
    assert "token=***" in out


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_holds_a_secret(folder: Path, form: str) -> None:
    out, err = outputs(run_redline("diagnose", folder, "--redact", "--format", form, "-v", *TABLES))
    assert leaks(out, err) == []
    said = json.loads(out)["redacted"] if form == "json" else out.replace("\\", "")
    for kind in ("host", "user", "folder", "e-mail", "address", "secret"):
        assert kind in str(said)
    assert ("redacted: " in err) == (form == "json")


@pytest.mark.parametrize("table", TABLES)
def test_no_csv_holds_a_secret(folder: Path, table: str, tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    out, err = outputs(run_redline("diagnose", folder, "--redact", table, "-o", target))
    assert leaks(out, err, target.read_text()) == []
    assert "redacted: " in err


def test_no_page_holds_a_secret(folder: Path) -> None:
    """Nor does the merged trace beside it, nor what is said of a page that lies in a folder with a name."""
    target = folder / "pages" / "report.html"
    target.parent.mkdir()
    out, err = outputs(run_redline("diagnose", folder, "--redact", "--with-trace", "-o", target))
    (trace,) = (path for path in target.parent.iterdir() if path != target)
    merged = trace.read_bytes()
    text = gzip.decompress(merged).decode() if trace.suffix == ".gz" else merged.decode()
    assert leaks(out, err, target.read_text(), text) == []
    assert "redacted: 1 host" in target.read_text()
    assert "redacted: 1 host" in err


def test_no_digest_holds_a_secret(folder: Path, tmp_path: Path) -> None:
    out, err = outputs(run_redline("digest", folder, "-o", tmp_path / "digests", "--redact"))
    assert leaks(out, err) == []
    assert "redacted: 1 host" in out
    for path in (tmp_path / "digests").iterdir():
        assert leaks(zstandard.ZstdDecompressor().decompress(path.read_bytes()).decode(errors="replace")) == []
    again, err = outputs(run_redline("diagnose", tmp_path / "digests", "--json"))
    assert leaks(again, err) == []


def test_no_merged_trace_holds_a_secret(folder: Path, tmp_path: Path) -> None:
    out, err = outputs(run_redline("merge", folder, "-o", tmp_path / "merged.json", "--redact"))
    assert leaks(out, err, (tmp_path / "merged.json").read_text()) == []
    assert "redacted: 1 host" in out
    before = redline.diagnose([folder]).outline.waterfall
    assert redline.diagnose([tmp_path / "merged.json"]).outline.waterfall == before


def test_a_digest_that_was_redacted_gives_the_same_accounts(folder: Path, tmp_path: Path) -> None:
    redline.digest([folder], tmp_path / "digests", redactor=Redactor())
    before, after = redline.diagnose([folder]), redline.diagnose([tmp_path / "digests"])
    assert after.outline.waterfall == before.outline.waterfall
    assert after.diagnosis.collectives == before.diagnosis.collectives
    assert after.outline.utilisation == before.outline.utilisation


@pytest.mark.parametrize("verb", ["diagnose", "digest", "merge"])
@pytest.mark.parametrize("given", ["moonshot-broken.json", "zebra-project-*.json", "."])
def test_no_error_holds_a_secret(folder: Path, tmp_path: Path, verb: str, given: str) -> None:
    """Of a file that is no trace, of a pattern that matches nothing, and with --strict of a folder."""
    strict = ("--strict",) if given == "." else ()
    output = () if verb == "diagnose" else ("-o", tmp_path / "out.json")
    done = run_redline(verb, folder / given, "--redact", *strict, *output)
    assert (done.returncode, done.stdout) == (2, "")
    assert leaks(done.stderr) == []
    assert len(done.stderr.splitlines()) <= 2


def test_what_cannot_be_written_is_said_without_its_folder(folder: Path) -> None:
    target = folder / "moonshot0.json"
    done = run_redline("diagnose", folder, "--redact", "-o", target)
    assert done.returncode == 2
    assert leaks(done.stderr) == []
    assert "already exists" in done.stderr


def test_a_file_of_results_holds_no_secret(folder: Path, tmp_path: Path) -> None:
    for name in ("report.txt", "report.md", "report.json"):
        out, err = outputs(run_redline("diagnose", folder, "--redact", "-o", tmp_path / name))
        assert leaks(out, err, (tmp_path / name).read_text()) == []
        assert "redacted: " in err


def test_python_values_hold_no_secret(folder: Path) -> None:
    clean = redline.diagnose([folder]).redacted()
    tables = (raw_rows(name, clean) for name in COLUMNS)
    assert leaks(str(clean), clean._repr_html_(), *map(repr, tables)) == []
    assert (
        leaks(repr(clean), repr(clean.diagnosis), repr(clean.findings), repr(clean.failures), repr(clean.outline)) == []
    )


@pytest.mark.needs_traces
def test_names_of_real_traces_stay_readable(traces: RealTraces) -> None:
    """Nothing in the names of real kernels and operators looks like a secret."""
    for trace in traces.names("*.json.gz")[::6]:
        text = gzip.decompress((traces / trace).read_bytes()).decode(errors="replace")
        redactor = Redactor()
        for name in {part.partition('"')[0] for part in text.split('"name": "')[1:]}:
            redactor.text(name)
        assert [one for one in redactor.removed if one.kind not in ("folder", "host")] == []
