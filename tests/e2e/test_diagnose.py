"""`redline diagnose` and `redline digest` as users run them: what goes where, and what is said when it cannot."""

import csv
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.capture.captured import Absent, Captured
from redline.hardware.machine import Figure, Machine
from redline.hardware.profile import save_profile
from redline.job.read_failures import Failure
from redline.ledger.job.job_memory import UntoldMemory
from redline.ledger.rank.digest_file import MOST_BYTES
from redline.report.diagnose import json as diagnose_json
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.raw_tables import COLUMNS
from redline.report.diagnose.tables import findings_table
from tests.support.command_line import REDLINE, ROOT, environment, run_redline
from tests.support.docs import rows_of, section
from tests.support.events import document
from tests.support.made_findings import findings
from tests.support.memory_jobs import HEALTHY
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

RECORDED = ROOT / "tests" / "data" / "recorded"
GOLDEN = ROOT / "tests" / "golden" / "diagnose"
PAGE = ROOT / "docs" / "reference" / "diagnose.md"
TABLES = ("--kernels", "--collectives", "--ranks", "--steps", "--host")


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_redline("diagnose", *arguments, cwd=cwd)


def ledger(done: subprocess.CompletedProcess[str]) -> list[Any]:
    """Everything in the JSON that the ledger is."""
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    return [record["waterfall"], record["utilisation"], [(one["steps"], one["outside"]) for one in record["ranks"]]]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs") / "job"
    write_job(JobSpec(ranks=4, steps=3, layers=2, stragglers=(Straggler(rank=2, extra_us=1500),)), folder)
    return folder


# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["screen", "tables"])
def test_the_text_of_a_job_is_as_recorded(job: Path, name: str, update_golden: bool) -> None:
    done = run(job, *(TABLES if name == "tables" else ()), "-q")
    assert (done.returncode, done.stderr) == (0, "")
    path = GOLDEN / f"{name}.txt"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(done.stdout)
    assert done.stdout == path.read_text()


@pytest.mark.parametrize("trace", sorted(RECORDED.glob("*.gz")), ids=lambda path: path.name.split(".")[0])
def test_recorded_traces_of_a_cpu(trace: Path) -> None:
    done = run(trace, *TABLES)
    assert done.returncode == 0
    assert "on CPU (no device work in the trace)" in done.stdout
    assert max(map(len, done.stdout.split("\n\nkernels")[0].splitlines())) <= 100


def test_each_table_is_added_once(job: Path) -> None:
    done = run(job, "--ranks", "--ranks")
    assert done.stdout.count("\nranks\n") == 1
    assert "\nkernels\n" not in done.stdout


def test_verbose_lists_every_row(job: Path) -> None:
    assert "more rows; -v lists all" in run(job, "--kernels").stdout
    assert "more rows; -v lists all" not in run(job, "--kernels", "-v").stdout


def test_a_terminal_that_cannot_show_blocks_gets_plain_letters(job: Path) -> None:
    done = subprocess.run(
        [*REDLINE, "diagnose", str(job), "-q"],
        capture_output=True,
        check=True,
        timeout=180,
        env={**environment(), "PYTHONIOENCODING": "ascii"},
    )
    assert b"####" in done.stdout
    assert b"\\u" not in done.stdout


def test_the_users_steps(job: Path) -> None:
    record = json.loads(run(job, "--json", "--step-regex", "ProfilerStep#2").stdout)
    assert {len(rank["steps"]) for rank in record["ranks"]} == {1}


def test_longer_names_of_languages_are_understood(job: Path) -> None:
    assert run(job, "--lang", "zh-CN", "-q").stdout == run(job, "--lang", "zh", "-q").stdout


def test_the_language_is_chosen_by_an_option_or_the_environment(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chinese = run(job, "--lang", "zh", "-q").stdout
    assert "\n结论      " in chinese
    assert json.loads(run(job, "--lang", "zh", "--json").stdout) == json.loads(run(job, "--json").stdout)
    monkeypatch.setenv("REDLINE_LANG", "zh")
    assert run(job, "-q").stdout == chinese
    assert "\nverdict   " in run(job, "--lang", "en", "-q").stdout


# --- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        ([], "4 ranks of 4 "),
        (["--format", "text"], "4 ranks of 4 "),
        (["--format", "md"], "## 4 ranks of 4 "),
        (["--format", "json"], "{\n"),
        (["--json"], "{\n"),
    ],
)
def test_formats(job: Path, arguments: list[str], begins: str) -> None:
    done = run(job, *arguments)
    assert done.returncode == 0
    assert done.stdout.startswith(begins)


@pytest.mark.parametrize(
    ("name", "arguments", "begins"),
    [
        ("report.txt", [], "4 ranks"),
        ("report", [], "4 ranks"),
        ("report.md", [], "## 4 ranks"),
        ("report.json", [], "{\n"),
        ("report.txt", ["--json"], "{\n"),
        ("report.json", ["--format", "text"], "4 ranks"),
    ],
)
def test_the_extension_says_the_format(job: Path, tmp_path: Path, name: str, arguments: list[str], begins: str) -> None:
    done = run(job, "-o", tmp_path / name, *arguments)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / name).read_text().startswith(begins)


def test_an_existing_file_is_replaced_only_by_force(job: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.txt"
    target.write_text("precious")
    done = run(job, "-o", target)
    assert (done.returncode, target.read_text()) == (2, "precious")
    assert done.stderr == f"redline: {target} already exists; use --force to replace it, or choose another name\n"
    assert run(job, "-o", target, "--force").returncode == 0
    assert target.read_text().startswith("4 ranks")


def test_mistakes_of_the_command_line(job: Path) -> None:
    for arguments, said in (
        (
            ["-o", "report.pdf"],
            "diagnose: report.pdf: diagnose writes .csv, .html, .json, .md or .txt; give the file such a name",
        ),
        (["--json", "--format", "md"], "not allowed with argument"),
        (["--format", "xml"], "invalid choice"),
        (["-q", "-v"], "not allowed with argument"),
        (
            ["--machine", "nonsense"],
            "there is no record 'nonsense' in the catalogue; `redline hardware` lists them all",
        ),
        (["--machine", "nowhere.json"], "nowhere.json"),
        (["--machine", "h100"], "could be"),
    ):
        done = run(job, *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert said in done.stderr
        assert "Traceback" not in done.stderr


# --- what cannot be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"rubbish", b"{}", b"<html>"])
def test_what_is_no_trace_is_refused_in_a_line_or_two(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "trace.json").write_bytes(content)
    done = run(tmp_path / "trace.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("redline: ")
    assert len(done.stderr.splitlines()) <= 2


def test_one_bad_file_among_good_ones_is_said_and_forgiven(job: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("rubbish")
    done = run(job, tmp_path / "bad.json")
    assert done.returncode == 0
    assert "  - unread: " in done.stdout
    (failure,) = json.loads(run(job, tmp_path / "bad.json", "--json").stdout)["failures"]
    assert failure["path"].endswith("bad.json")


def test_an_empty_trace_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(document([]))
    done = run(tmp_path / "trace.json", *TABLES)
    assert (done.returncode, done.stderr) == (0, "")
    assert "steps     none: nothing in the trace takes any time" in done.stdout


def test_strict_fails_on_damage(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(
        document([{}, {"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}])
    )
    assert run(tmp_path).returncode == 0
    done = run(tmp_path, "--strict")
    assert done.returncode == 2
    assert "--strict" in done.stderr


# --- the machine ------------------------------------------------------------------------------------------------------


def test_a_machine_of_the_catalogue(job: Path) -> None:
    done = run(job, "--machine", "H200-SXM-141GB")
    if done.returncode == 2:
        name = redline.find_hardware("h200")[0].name
        done = run(job, "--machine", name)
    assert done.returncode == 0
    assert "; figures of H200" in done.stdout.replace("\n  ", " ")


def test_a_profile(job: Path, tmp_path: Path) -> None:
    figures = {
        "memory_bytes_per_s": Figure(value=1e12, source="a test", date="2026-08-14"),
        "peak_flops_per_s.bf16": Figure(value=5e14, source="a test", date="2026-08-14"),
    }
    from redline.hardware.machine import calibrated

    save_profile(calibrated(Machine(name=""), "ours", figures), tmp_path / "ours.json", made_by="a test")
    done = run(job, "--machine", tmp_path / "ours.json")
    assert done.returncode == 0
    assert "; figures of ours (calibrated)" in done.stdout.replace("\n  ", " ")
    assert "500 TFLOP/s bf16" in done.stdout


# --- the next command -------------------------------------------------------------------------------------------------


def follow(done: subprocess.CompletedProcess[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    (line,) = done.stderr.splitlines()
    assert line.startswith("next: redline ")
    return run_redline(*shlex.split(line.removeprefix("next: redline ")), cwd=cwd)


@pytest.fixture(scope="module")
def calm_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nothing is wrong with it, so nothing is found."""
    folder = tmp_path_factory.mktemp("calm") / "job"
    write_job(JobSpec(ranks=4, steps=3, layers=2), folder)
    return folder


def test_the_next_command_explains_the_first_finding(job: Path, tmp_path: Path) -> None:
    done = run(job, cwd=tmp_path)
    assert done.stderr == "next: redline explain RL-N13\n"
    assert follow(done, tmp_path).stdout.startswith("# RL-N13: ")
    chinese = run(job, "--lang", "zh", cwd=tmp_path)
    assert chinese.stderr == "next: redline explain RL-N13 --lang zh\n"


def test_the_next_command_shows_more_of_the_largest_loss(calm_job: Path, tmp_path: Path) -> None:
    first = run(calm_job, "--step-regex", "ProfilerStep", cwd=tmp_path)
    assert first.stderr == f"next: redline diagnose {calm_job} --step-regex ProfilerStep --kernels\n"
    second = follow(first, tmp_path)
    assert "\nkernels\n" in second.stdout
    assert second.stderr == f"next: redline merge {calm_job} -o merged.json.gz\n"
    assert follow(second, tmp_path).returncode == 0


def test_where_no_finding_is_worth_acting_on_memory_that_grows_comes_next(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(document(replace(HEALTHY, kept=3).events()))
    done = run(tmp_path)
    assert "(RL-M02)." in done.stdout
    assert done.stderr == "next: redline explain RL-M02\n"


def test_quiet_leaves_stderr_empty(job: Path) -> None:
    assert run(job, "-q").stderr == ""


# --- digests ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digests(job: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digests") / "new" / "folder"
    done = run_redline("digest", job, "-o", folder)
    assert done.returncode == 0
    assert done.stdout.startswith(f"wrote {folder}: 4 digests, ")
    assert done.stderr == f"next: redline diagnose {folder}\n"
    return folder


def test_there_is_a_small_file_for_each_rank(digests: Path) -> None:
    files = sorted(digests.iterdir())
    assert [path.name for path in files] == [f"rank-{rank:05d}.digest" for rank in range(4)]
    assert max(path.stat().st_size for path in files) <= MOST_BYTES


def test_digests_give_the_ledger_of_the_traces(job: Path, digests: Path) -> None:
    assert ledger(run(digests, "--json")) == ledger(run(job, "--json"))
    assert ledger(run(*sorted(digests.iterdir()), "--json")) == ledger(run(job, "--json"))


def test_digests_of_several_nodes_are_one_job(job: Path, tmp_path: Path) -> None:
    for rank in range(4):
        node = tmp_path / "digests" / f"node-{rank // 2}"
        assert run_redline("digest", job / f"rank-{rank}.pt.trace.json.gz", "-o", node, "-q").returncode == 0
    assert ledger(run(tmp_path / "digests", "--json")) == ledger(run(job, "--json"))


def test_a_digest_cannot_be_judged_anew(digests: Path) -> None:
    for arguments in (["--machine", "H20"], ["--step-regex", "a"], ["--model", "qwen3-8b"]):
        done = run(digests, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"redline: diagnose: {arguments[0]} is for traces, and a digest was given; make the digest anew with it\n"
        )


def test_a_model_that_no_step_can_be_rated_by_is_refused(calm_job: Path) -> None:
    done = run(calm_job, "--model", "qwen3-8b")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "redline: diagnose: --model qwen3-8b is for steps of an engine on one GPU with known peaks whose labels have "
        "the sizes of their batch; there are none here, so leave it out\n"
    )


def test_digests_cannot_be_merged_so_it_is_not_advised(calm_job: Path, tmp_path: Path) -> None:
    assert run_redline("digest", calm_job, "-o", tmp_path, "-q").returncode == 0
    assert run(tmp_path, "--kernels").stderr == ""


def test_digests_are_replaced_only_by_force(job: Path, digests: Path) -> None:
    done = run_redline("digest", job, "-o", digests)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("already exists; use --force to replace it, or choose another name\n")
    assert run_redline("digest", job, "-o", digests, "--force").returncode == 0


def test_a_damaged_digest_is_refused(digests: Path, tmp_path: Path) -> None:
    data = bytearray((digests / "rank-00000.digest").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "a.digest").write_bytes(data)
    done = run(tmp_path / "a.digest")
    assert (done.returncode, done.stdout) == (2, "")
    assert "damaged, or not a digest" in done.stderr


def test_mistakes_of_digest(job: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "bad.json").write_text("rubbish")
    for arguments, said in (
        ([job], "required: -o/--output"),
        ([job, "-o", tmp_path / "file"], "is a file; give a folder, it will hold one digest per rank"),
        ([tmp_path / "bad.json", "-o", tmp_path / "d"], "bad.json: "),
        ([job, "-o", tmp_path / "d", "--machine", "nonsense"], "there is no record 'nonsense'"),
    ):
        done = run_redline("digest", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    assert not (tmp_path / "d").exists()


def test_what_could_not_be_digested_is_said(job: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("rubbish")
    done = run_redline("digest", job, tmp_path / "bad.json", "-o", tmp_path / "d", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nunread: " in done.stdout


# --- the page ---------------------------------------------------------------------------------------------------------

FREE_KEYS = {
    "verdict.phases",
    "findings[].accounts",
    "findings[].evidence[].values",
    "findings[].fix[].values",
    "remarks[].accounts",
    "remarks[].evidence[].values",
    "praise[].values",
    "utilisation.peaks",
    "utilisation.model_flops",
    "ranks[].versions",
    "ranks[].dropped",
    "ranks[].left_out",
    "ranks[].outside",
    "ranks[].steps[].accounts",
    "memory.devices[].accounts",
    "memory.causes[].figures",
}
LISTS_OF_OBJECTS = {
    "findings",
    "findings[].places",
    "findings[].evidence",
    "findings[].fix",
    "phases",
    "remarks",
    "remarks[].places",
    "remarks[].evidence",
    "praise",
    "waterfall",
    "unseen",
    "ranks",
    "ranks[].arithmetic",
    "ranks[].steps",
    "lateness.ranks",
    "kernels",
    "collectives",
    "doing",
    "failures",
    "memory.devices",
    "memory.devices[].steps",
    "memory.devices[].growth",
    "memory.devices[].holders",
    "memory.causes",
    "memory.left_out",
    "captured.absent",
    "redacted",
}

CAPTURED = Captured(
    window=1,
    windows=2,
    restart=0,
    first_step=10,
    steps=3,
    asked_steps=3,
    run_steps=60,
    slowdown=1.2,
    captured_step_ns=12,
    usual_step_ns=10,
    condition="",
    cut_short="",
    absent=(Absent(why="killed", ranks=(3,)),),
)


def keys_of(value: Any, at: str = "") -> Iterator[str]:
    """Every key of a JSON value with the way to it."""
    if isinstance(value, dict) and at not in FREE_KEYS:
        for key, inner in value.items():
            yield from keys_of(inner, f"{at}.{key}".removeprefix("."))
    elif isinstance(value, list | tuple) and at in LISTS_OF_OBJECTS:
        assert value, at
        for inner in value:
            yield from keys_of(inner, f"{at}[]")
    else:
        yield at


def with_memory(found: DiagnoseResult, folder: Path) -> DiagnoseResult:
    (folder / "a.json").write_bytes(document(replace(HEALTHY, kept=3).events()))
    memory = redline.diagnose(folder / "a.json").diagnosis.memory
    assert memory is not None
    memory = replace(memory, left_out=(UntoldMemory(rank=1, why="damaged"),))
    return replace(found, diagnosis=replace(found.diagnosis, memory=memory))


def test_the_page_has_every_key_of_the_json(job: Path, tmp_path: Path) -> None:
    found = with_memory(redline.diagnose([job]), tmp_path)
    failures = [Failure(path="a", message="b")]
    removed = found.redacted().removed
    made_up = findings()
    fixed = tuple(replace(finding, fix=finding.evidence[0]) for finding in made_up.findings)
    remarks = tuple(replace(remark, places=fixed[0].places, fix=fixed[0].fix) for remark in made_up.remarks)
    record = diagnose_json.as_record(
        replace(
            found,
            findings=replace(made_up, findings=fixed, remarks=remarks),
            failures=tuple(failures),
            removed=removed,
            captured=CAPTURED,
        )
    )
    rows = rows_of(section(PAGE, "The JSON"))
    assert {row[0] for row in rows} == {f"`{key}`" for key in keys_of(record)}


def test_the_page_has_every_column_of_the_findings() -> None:
    documented = tuple(row[0] for row in rows_of(section(PAGE, "--findings")))
    assert documented == tuple(f"`{column}`" for column in findings_table(findings()).head)


def test_the_page_has_every_account_remark_and_column(job: Path) -> None:
    from redline.ledger.accounts import ACCOUNTS
    from redline.ledger.job.first_screen import Unseen
    from redline.report.diagnose.tables import TABLES as RENDERED

    assert [row[0] for row in rows_of(section(PAGE, "The waterfall"))] == [f"`{account}`" for account in ACCOUNTS]
    assert {row[0] for row in rows_of(section(PAGE, "What could not be seen"))} == {f"`{one}`" for one in Unseen}
    found = redline.diagnose([job])
    for name, table in RENDERED.items():
        head = table(found.diagnosis, verbose=False).head
        documented = [row[0] for row in rows_of(section(PAGE, f"--{name}"))]
        assert [f"`{column}`" for column in head[: len(documented)]] == documented
        assert name == "steps" or len(documented) == len(head)


# --- odd surroundings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["diagnose", "inspect"])
def test_a_file_name_that_is_no_text_is_read_like_any_other(tmp_path: Path, verb: str) -> None:
    odd = os.fsencode(tmp_path / "odd-") + b"\xff.json.gz"
    shutil.copy(RECORDED / "inference.pt.trace.json.gz", os.fsdecode(odd))
    for options in ([], ["--json"]):
        done = subprocess.run(
            [*map(os.fsencode, REDLINE), verb.encode(), odd, *map(os.fsencode, options)],
            capture_output=True,
            check=False,
            env=environment(),
        )
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["--help", "hardware", f"diagnose {RECORDED / 'inference.pt.trace.json.gz'}"])
def test_a_closed_output_is_said(command: str) -> None:
    done = subprocess.run(
        f"{shlex.join(REDLINE)} {command} >&-",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 2
    assert done.stderr.startswith("redline: cannot write to standard output: ")
    assert "Traceback" not in done.stderr


def test_an_empty_path_is_refused() -> None:
    done = run_redline("diagnose", "")
    assert (done.returncode, done.stderr) == (
        2,
        "redline: an empty path was given; is a variable of the shell unset?\n",
    )


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no such folder here")
def test_a_folder_that_takes_no_files_is_not_said_to_be_missing() -> None:
    done = run_redline("diagnose", RECORDED / "inference.pt.trace.json.gz", "-o", "/proc/x.json")
    assert done.returncode == 2
    assert done.stderr.startswith("redline: cannot write /proc/x.json: ")
    assert "does not exist" not in done.stderr


def test_the_next_line_is_harmless(tmp_path: Path) -> None:
    odd = tmp_path / "a\x1b[31mb.json.gz"
    shutil.copy(RECORDED / "inference.pt.trace.json.gz", odd)
    assert "\x1b" not in run_redline("diagnose", odd).stderr


def test_a_digest_is_known_by_its_content(tmp_path: Path) -> None:
    assert run_redline("digest", RECORDED / "inference.pt.trace.json.gz", "-o", tmp_path / "d").returncode == 0
    (digest,) = (tmp_path / "d").iterdir()
    renamed = digest.rename(tmp_path / "renamed.bin")
    assert run_redline("diagnose", renamed).returncode == 0


# --- thresholds -------------------------------------------------------------------------------------------------------


def test_a_crossed_threshold_is_exit_code_1_after_the_report(job: Path) -> None:
    done = run(job, "--quiet", "--fail-on", "peer wait>1%", "--fail-on", "step>1us", "--fail-on", "dropped>0")
    assert done.returncode == 1
    assert done.stdout.startswith("4 ranks of 4")
    assert [line.split(" is crossed: ")[0] for line in done.stderr.splitlines()] == [
        "threshold peer wait>1%",
        "threshold step>1us",
    ]


def test_kept_thresholds_are_exit_code_0(job: Path) -> None:
    done = run(job, "--quiet", "--fail-on", "dropped>0", "--fail-on", "step>1s")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_threshold_that_cannot_be_checked_is_exit_code_2_after_the_report(tmp_path: Path) -> None:
    (tmp_path / "cpu.json").write_bytes(document([{**op_of_a_cpu(0), "dur": 5}]))
    target = tmp_path / "out.txt"
    done = run(tmp_path / "cpu.json", "-q", "-o", target, "--fail-on", "mfu<40%", "--fail-on", "step>1ns")
    assert done.returncode == 2
    assert target.exists()
    assert done.stderr.splitlines() == [
        "threshold step>1ns is crossed: step is 5.000 us",
        "redline: threshold mfu<40% cannot be checked: the peak of the machine is not known; give it with --machine",
    ]


def op_of_a_cpu(at: float) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at, "dur": 1}


def test_a_threshold_that_makes_no_sense_is_said_before_anything_is_read(tmp_path: Path) -> None:
    done = run(tmp_path / "nothing", "--fail-on", "idle>20")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("redline: diagnose: --fail-on 'idle>20': idle is a share: write a percentage, such as 20%\n")


# --- CSV --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["findings", "kernels", "collectives", "ranks", "steps", "host"])
def test_a_table_as_csv(job: Path, tmp_path: Path, table: str) -> None:
    target = tmp_path / f"{table}.csv"
    done = run(job, f"--{table}", "-q", "-o", target)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rows = list(csv.DictReader(target.read_text().splitlines()))
    assert list(rows[0]) == [column.name for column in COLUMNS[table]]
    printed = run(job, f"--{table}", "-q", "--format", "csv")
    assert printed.stdout == target.read_text()


@pytest.mark.parametrize("tables", [[], ["--kernels", "--ranks"]])
def test_csv_is_one_table(job: Path, tmp_path: Path, tables: list[str]) -> None:
    for how in (["-o", str(tmp_path / "x.csv")], ["--format", "csv"]):
        done = run(job, *tables, *how)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "redline: diagnose: CSV is one table; give exactly one of "
            "--findings, --kernels, --collectives, --ranks, --steps, --phases, --host\n"
        )
    assert not (tmp_path / "x.csv").exists()


def test_names_of_a_trace_are_no_formulas_in_csv(tmp_path: Path) -> None:
    names = ["=HYPERLINK(1)", "+1", "-2+3", "@SUM", "\ttab", "\rreturn", "\x1b[31mred", "a\u202eb"]
    events = [{**op_of_a_cpu(10 * place), "name": name} for place, name in enumerate(names)]
    (tmp_path / "t.json").write_bytes(document(events))
    done = run(tmp_path / "t.json", "-q", "--kernels", "--format", "csv")
    found = {row["operator"] for row in csv.DictReader(done.stdout.splitlines())}
    assert found == {"'=HYPERLINK(1)", "'+1", "'-2+3", "'@SUM", "'tab", "'return", "[31mred", "ab"}
