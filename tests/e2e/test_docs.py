"""The documentation is true: its commands run and print what it shows, and its tables are those of the code.

How pages are written, so that they can be run:

- A `console` block holds commands, each on a line that begins with `$ `. They run in order, page by page, in a folder
  that has the recorded traces where a checkout has them. `# exits with 2` after a command says that it must fail so.
- Lines under a command are all that it prints; `...` stands for any text in a line, and alone for any lines. Where no
  line is shown, what is printed is not checked.
- `<!-- file: NAME -->` before a `python` block makes it a file of that name in the folder. Every `python` block is one.
  A page with a file that imports torch is skipped where there is no torch.
- Blocks of any other kind are only to be read, and so are those of the pages of findings and levers.
- Translated pages are not run: their blocks are those of the English page.
"""

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import redline
from redline import cli
from redline.capture.run_record import DigestsRecord, RankDigest, to_json
from redline.capture.supervisor.rank_records import _KINDS as KINDS
from redline.capture.supervisor.stall import Stall, Standing
from redline.cli.options import Options, options_of
from redline.cli.plan import VERB
from redline.cli.verb_table import VERBS, declared_options
from redline.ledger.accounts import ACCOUNTS
from redline.plan.train.memory.footprint import Footprint
from redline.report.inspect import record as inspection
from redline.report.language import LANGUAGES
from redline.report.plan import serving_report, validation_report
from redline.report.plan.train import training_report
from redline.timeline.problems import Reason
from redline.timeline.table import Table
from redline.timeline.timeline import TABLES, Device, Kind, Lane, Metadata, Source, Timeline
from redline.trace import cache as trace_cache
from redline.trace import document, inflate
from redline.trace.reader import HARMLESS
from redline.verbs.diagnose import diagnose
from redline.verbs.inspect import inspect
from scripts import copy_commands, list_findings
from tests.support import made_plans
from tests.support.command_line import forked
from tests.support.damage.corpus import RECIPES
from tests.support.docs import DOCS, HEADING, ROOT, first_words_of_options, name_of, rows_of, section
from tests.support.run_records import rank as rank_of_a_run
from tests.support.run_records import run as run_record

READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
PASTED = (DOCS / "findings", DOCS / "levers")  # tests/unit: findings/test_pages.py, trials/test_lever_pages.py
PAGES = [*READMES, *sorted(DOCS.rglob("*.md"))]
TRANSLATIONS = copy_commands.translations()  # show the commands of their English pages, which are the ones that run
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PICTURES = sorted((DOCS / "images").iterdir())
# Of terminals. Others are photographs of a page, or charts that tests/e2e/test_accuracy_page.py looks at.
DRAWN = [picture for picture in PICTURES if picture.suffix == ".svg" and not picture.name.startswith("accuracy-")]
RECORDED = Path("tests/data/recorded")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # on a machine that others use too, more wait for each other
OF_A_BUSY_MACHINE = ("RL-H20", "RL-N30")  # tests run beside each other
STARVED = 0.1  # of the step
INSTALLING = "pip install ."  # what is under test is already there

FENCE = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n+)?^```(?P<kind>\S*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
EXITS_WITH = re.compile(r"# exits with (\d+)$")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
DEVELOPER_PATH = re.compile(r"/work/|/root/|/home/\w|/Users/\w")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    kind: str
    text: str
    file: str


@dataclass(frozen=True)
class Command:
    """A command of a page, the exit code that the page promises, and the lines that it shows."""

    line: str
    code: int
    shown: list[str]


def blocks_of(page: Path) -> list[Block]:
    return [Block(m["kind"], m["text"], m["file"] or "") for m in FENCE.finditer(page.read_text())]


def commands_of(block: Block) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, *shown = part.rstrip().split("\n")
        stated = EXITS_WITH.search(line)
        yield Command(line, int(stated[1]) if stated else 0, shown)


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what the pages use of a checkout."""
    shutil.copytree(ROOT / RECORDED, tmp_path / "checkout" / RECORDED)
    for used in ("examples", "tests/support"):
        shutil.copytree(ROOT / used, tmp_path / "checkout" / used)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, arguments in (("python", ""), ("redline", "-m redline ")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
        program.chmod(0o755)
    return tmp_path / "checkout"


# Commands that are forked from a process which has imported Redline: those that neither measure nor start anything.
FORKED = re.compile(r"redline (?:diagnose|digest|explain|hardware|inspect|memory|merge|plan)(?: [\w./*=:,@%+ -]*)?")


def expanded(word: str, folder: Path) -> list[str]:
    """As a shell does it."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else [word]


def run(line: str, folder: Path, *, with_errors: bool = True) -> tuple[int, str]:
    """Exit code and everything printed, or what is printed on stdout alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REDLINE_", "XDG_"))}
    home = folder.parent
    # The environment of the tests stands before all others, as if it were activated.
    path = os.pathsep.join([str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT / "src"), "LC_ALL": "C.UTF-8", **ONE_THREAD}
    if FORKED.fullmatch(line):
        words = [found for word in line.split()[1:] for found in expanded(word, folder)]
        said = home / "said.txt"
        answer = forked().run(
            words, folder, inherited={**kept, **own}, streams=(str(said), str(said) if with_errors else os.devnull)
        )
        return answer.exit_code, said.read_text()
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**kept, **own},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if with_errors else subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout


def pattern_of(shown: list[str]) -> re.Pattern[str]:
    """What the output must match as a whole to be what a page shows."""
    lines = []
    for line in shown:
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(re.escape(line.rstrip()).replace(re.escape("..."), ".*") + r" *\n")
    return re.compile("".join(lines))


EXECUTED = [page for page in PAGES if "```console" in page.read_text() and page not in TRANSLATIONS]


@pytest.mark.parametrize("page", EXECUTED, ids=name_of)
def test_commands_do_what_the_page_says(page: Path, checkout: Path) -> None:
    if any("import torch" in block.text for block in blocks_of(page) if block.file):
        pytest.importorskip("torch")
    for block in blocks_of(page):
        if block.file:
            (checkout / block.file).write_text(block.text)
        for command in commands_of(block) if block.kind == "console" else ():
            if command.line.startswith(INSTALLING):
                continue
            code, printed = run(command.line, checkout)
            assert code == command.code, f"{command.line}\n{printed}"
            if command.shown and not pattern_of(command.shown).fullmatch(printed.rstrip() + "\n"):
                pytest.fail("\n".join(difflib.unified_diff(command.shown, printed.splitlines(), "page", "printed")))
    if name_of(page) == "README.md":
        check_that_the_largest_flaws_come_first(checkout / "my-run")


def check_that_the_largest_flaws_come_first(run_folder: Path) -> None:
    """As README says of the job that it runs; where others take its processors, what is timed comes in any order."""
    assert [rank["steps"] for rank in json.loads((run_folder / "run.json").read_text())["ranks"]] == [16, 16]
    findings = diagnose(run_folder).findings.findings
    named = [finding.code for finding in findings if finding.code not in OF_A_BUSY_MACHINE]
    assert {"RL-D01", "RL-N02"} <= set(named)
    if not any(finding.code in OF_A_BUSY_MACHINE and finding.share >= STARVED for finding in findings):
        assert named[0] == "RL-D01"
        assert "RL-N02" in named[1:3]


def test_every_python_block_is_a_file_that_runs() -> None:
    for page in (one for one in PAGES if one.parent not in PASTED):
        blocks = blocks_of(page)
        commands = [command.line for block in blocks if block.kind == "console" for command in commands_of(block)]
        for block in blocks:
            if block.kind == "python":
                assert any(block.file in line for line in commands if block.file), f"{name_of(page)}: {block.text}"


@pytest.mark.parametrize("picture", DRAWN, ids=name_of)
def test_a_picture_is_what_is_printed(picture: Path, checkout: Path) -> None:
    prompt, *lines = drawn_lines(picture)
    assert prompt.startswith("$ redline ")
    code, printed = run(prompt.removeprefix("$ "), checkout, with_errors=False)
    assert code == 0
    assert lines == printed.splitlines()


def drawn_lines(picture: Path) -> list[str]:
    """The lines of a drawn terminal, the command first."""
    texts = ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")
    return [text.text or "" for text in texts if text.get("class") != "title"]


def test_every_picture_is_on_a_page() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in LINK.findall(page.read_text())}
    assert PICTURES
    assert set(PICTURES) <= shown


# --- tables -----------------------------------------------------------------------------------------------------------


def flags_of(declared: type[Options]) -> set[str]:
    """Each argument as the reference writes it: `-o FILE`, `--output FILE`."""
    return {"`-h`, `--help`"} | {
        ", ".join("`" + f"{name} {option.metavar or ''}".strip() + "`" for name in option.names or [""])
        for option in options_of(declared)
    }


def test_the_cli_reference_has_every_verb_and_every_flag() -> None:
    page = DOCS / "reference" / "cli.md"
    declared = declared_options()
    for verb, options in declared.items():
        documented = {row[0] for row in rows_of(section(page, f"redline {verb}"))}
        assert documented == flags_of(options)
    headings = {match[2].replace("`", "") for match in HEADING.finditer(page.read_text())}
    assert {heading for heading in headings if heading.startswith("redline ")} == {
        f"redline {verb}" for verb in (*VERBS, *declared)
    }


def test_the_cli_reference_has_every_exit_code_and_the_environment() -> None:
    page = DOCS / "reference" / "cli.md"
    codes = {int(code) for code, _meaning in cli.EXIT_CODES}
    assert {int(row[0]) for row in rows_of(section(page, "Exit codes"))} == codes | {cli.EXIT_PIPE_CLOSED}
    assert f"`{trace_cache.ENVIRONMENT}`" in {row[0] for row in rows_of(section(page, "Environment"))}


def test_the_reading_ledger_page_is_the_list_of_reasons() -> None:
    rows = rows_of((DOCS / "reference" / "reading-ledger.md").read_text())
    documented = {row[0]: (row[1], row[2], row[3]) for row in rows if len(row) == 5}
    assert documented == {
        f"`{reason.code}`": (str(reason.effect), reason.sentence, "accepts" if reason in HARMLESS else "refuses")
        for reason in Reason
    }


def test_the_timeline_page_has_every_table_and_column() -> None:
    page = DOCS / "reference" / "timeline.md"
    for name, table in TABLES.items():
        assert issubclass(table, Table)
        documented = {row[0]: row[1] for row in rows_of(section(page, name))}
        assert documented == {f"`{column}`": str(dtype) for column, dtype in table.layout().items()}, name


@pytest.mark.parametrize("record", [Timeline, Lane, Device, Metadata, Source])
def test_the_timeline_page_has_every_field(record: type[Any]) -> None:
    documented = {row[0] for row in rows_of(section(DOCS / "reference" / "timeline.md", record.__name__))}
    assert documented == {f"`{field.name}`" for field in fields(record)}


def test_the_timeline_page_has_every_kind() -> None:
    documented = {(row[0], row[1]) for row in rows_of(section(DOCS / "reference" / "timeline.md", "Kinds of spans"))}
    assert documented == {(f"`{kind.name}`", str(int(kind))) for kind in Kind}


def test_the_limits_of_the_reader_are_those_of_the_code() -> None:
    limits = inflate.Limits()
    documented = [row[1] for row in rows_of(section(DOCS / "explanation" / "reader.md", "Limits"))]
    assert documented == [
        f"{limits.ratio} times the compressed size, once {limits.ratio_from_bytes >> 20} MiB came out",
        f"{limits.inflated_bytes >> 30} GiB",
        f"{inflate.WRAPPERS_DEEP}",
        f"{document.HEAD_LIMIT_BYTES >> 20} MiB",
        f"{document.DEPTH_LIMIT:,} levels",
        f"{document.TAIL_LIMIT_BYTES >> 20} MiB",
        f"{document.EVENT_LIMIT_BYTES >> 20} MiB",
    ]


FREE_KEYS = {"ranks[].versions", "ranks[].spans_by_kind", "ranks[].events_in_file", "ranks[].unused_in_file"}
LISTS_OF_OBJECTS = {"ranks", "ranks[].problems", "failures"}


def keys_of(value: Any, at: str = "") -> Iterator[str]:
    """Every key of a JSON value with the way to it."""
    if isinstance(value, dict) and at not in FREE_KEYS:
        for key, inner in value.items():
            yield from keys_of(inner, f"{at}.{key}".removeprefix("."))
    elif isinstance(value, list) and at in LISTS_OF_OBJECTS:
        for inner in value:
            yield from keys_of(inner, f"{at}[]")
    else:
        yield at


def test_the_inspect_page_has_every_key_of_the_json(tmp_path: Path) -> None:
    first = RECORDED / "ddp_rank0.pt.trace.json.gz"
    (tmp_path / "cut_rank1.json.gz").write_bytes((ROOT / first).read_bytes()[:-2000])
    (tmp_path / "page.json").write_text("<html>")
    record = inspection(inspect([ROOT / first, tmp_path]))
    assert record["failures"]
    assert any(rank["problems"] for rank in record["ranks"])
    rows = rows_of(section(DOCS / "reference" / "inspect.md", "The JSON"))
    assert {row[0] for row in rows} == {f"`{key}`" for key in keys_of(record)}


def test_the_run_page_has_every_option_and_every_kind_of_step() -> None:
    page = DOCS / "reference" / "run.md"
    assert {row[0] for row in rows_of(section(page, "Options"))} == first_words_of_options("run")
    assert {row[0] for row in rows_of(section(page, "What ends a step"))} == {f"`{kind}`" for kind in KINDS.values()}


@pytest.mark.parametrize("kind", VERB.kinds)
def test_the_plan_page_has_every_option(kind: str) -> None:
    rows = rows_of(section(DOCS / "reference" / "plan.md", f"Options of {kind}"))
    assert {row[0] for row in rows} == first_words_of_options(f"plan {kind}")


def test_the_plan_page_has_every_number_of_a_footprint() -> None:
    rows = rows_of(section(DOCS / "reference" / "plan.md", "What software keeps in memory"))
    stated = {row[0].strip("`"): float(row[1]) for row in rows}
    assert stated == {each.name: each.default for each in fields(Footprint)}


def test_the_plan_page_has_every_key_of_the_json() -> None:
    whole = training_report.record_of(made_plans.plan(), made_plans.job(), [made_plans.plan()])
    bare = training_report.record_of(made_plans.plan())
    written = {key for record in (whole, bare, plan_from_a_measured_step()) for key in keys_of_a_plan(record)}
    assert documented_keys("train") == {f"`{key}`" for key in written}
    assert documented_keys("serve") == {
        f"`{key}`"
        for key in keys_of_a_plan(
            serving_report.record_of(made_plans.serving_plan(measured=made_plans.measured_engine()))
        )
    }
    assert documented_keys("validate") == {
        f"`{key}`" for key in keys_of_a_plan(validation_report.record_of(made_plans.validation()))
    }


def plan_from_a_measured_step() -> dict[str, Any]:
    plan = redline.plan_training(
        "llama-3.1-8b",
        machine="H100-SXM5-80GB",
        gpus=64,
        sequence=8192,
        batch=128,
        stack="megatron-core",
        layout={"tp": 2, "pp": 1, "cp": 1},
        measured="step=2.6s,gpus=64,batch=128,micro_batch=1,tp=2,zero=1",
    ).plan
    assert plan.measured is not None
    recorded = replace(plan.measured.measured, inferred=("batch",), unseen=("pipeline",))
    record = training_report.record_of(replace(plan, measured=replace(plan.measured, measured=recorded)))
    return {"measured": record["measured"]}


def documented_keys(kind: str) -> set[str]:
    return {row[0] for row in rows_of(section(DOCS / "reference" / "plan.md", f"The JSON of {kind}"))}


ALIKE = re.compile(
    r"((?:ranked|frontier|points)\[\]|best\.(?:tpot_s|latency_s|tokens_per_s|prompt_s)|step\.(?:megatron|everything)"
    r"|(?:left_out\.stacks|step\.(?:stacks|kinds))\[\]|sizes\[\]\.best|(?:alternatives|changes)\[\]\.layout"
    r"|measured\.(?:layout|accuracy|accounts(?!\.compute))|job\.(?:ideal_days|days|device_hours|money|energy_wh))\..*"
)


def keys_of_a_plan(value: Any, at: str = "") -> Iterator[str]:
    """Of several objects with the same keys, one has them all."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from keys_of_a_plan(inner, f"{at}.{key}".removeprefix("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from keys_of_a_plan(inner, f"{at}[]")
    elif value != []:
        yield ALIKE.sub(r"\1", at)


def test_the_run_page_has_every_field_of_the_record() -> None:
    """As it is written; what is in facts, machine and settings is free."""
    note = {"code": "a", "text": "b", "count": 1}
    stall: dict[str, Any] = {field.name: [] for field in fields(Stall)}
    standing = {field.name: 0 for field in fields(Standing) if field.name != "stacks"}
    digests = DigestsRecord(keep_traces=2, wait_s=30.0, newest=(RankDigest(**_nothing_of(RankDigest)),))
    record = run_record(rank_of_a_run(notes=(note,)), stalls=({**stall, "ranks": [standing]},), digests=digests)
    written = set(keys_of_a_run(json.loads(json.dumps(to_json(record)))))
    rows = rows_of(section(DOCS / "reference" / "run.md", "run.json"))
    assert {row[0] for row in rows} == {f"`{key}`" for key in written}


def _nothing_of(kind: type[Any]) -> dict[str, Any]:
    return {field.name: 0 for field in fields(kind)}


def keys_of_a_run(value: Any, at: str = "") -> Iterator[str]:
    objects = ("ranks", "ranks[].windows", "ranks[].notes", "stalls", "stalls[].ranks", "digests.newest")
    if isinstance(value, dict) and at not in ("ranks[].facts", "machine", "settings"):
        for key, inner in value.items():
            yield from keys_of_a_run(inner, f"{at}.{key}".removeprefix("."))
    elif isinstance(value, list) and at in objects:
        for inner in value:
            yield from keys_of_a_run(inner, f"{at}[]")
    else:
        yield at


def test_every_promise_names_tests_that_exist() -> None:
    rows = rows_of(section(DOCS / "explanation" / "capture.md", "Sixteen promises"))
    assert [row[0].partition(".")[0] for row in rows] == [f"P{number}" for number in range(1, 17)]
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    for row in rows:
        named = CODE.findall(row[1])
        assert named
        assert set(named) <= defined, row[0]


# --- the whole --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [DOCS / "design.md", ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_the_layers_are_those_that_are_checked(page: Path) -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    block = next(block for block in blocks_of(page) if block.kind == "layers")
    drawn = [re.split(r"\s{2,}", line)[0] for line in block.text.splitlines()]
    assert drawn == [re.sub(r"[()]", "", layer) for layer in contract["layers"]]


@pytest.mark.parametrize(("readme", "status"), [("README.md", {"works"}), ("README.zh-CN.md", {"可用"})])
def test_the_readme_says_which_verbs_work(readme: str, status: set[str]) -> None:
    rows = [row for row in rows_of((ROOT / readme).read_text()) if row[0].startswith("`redline ")]
    said = {CODE.findall(row[0])[0].removeprefix("redline "): row[-1] for row in rows}
    assert set(said.values()) == status
    working = {verb for verb, word in said.items() if word in ("works", "可用")}
    assert working <= set(VERBS)
    assert working == set(VERBS) or readme != "README.md"  # a translation may lag behind


@pytest.mark.parametrize(
    ("readme", "heading"), [("README.md", "Where the time goes"), ("README.zh-CN.md", "时间花在哪里")]
)
def test_the_readme_has_every_account_in_order(readme: str, heading: str) -> None:
    assert [row[0] for row in rows_of(section(ROOT / readme, heading))] == [f"`{account}`" for account in ACCOUNTS]


def test_the_guide_to_a_diagnosis_has_every_account_in_order() -> None:
    headings = HEADING.findall((DOCS / "how-to" / "read-a-diagnosis.md").read_text())
    assert [name for level, name in headings if level == "##"] == [f"`{account}`" for account in ACCOUNTS]


@pytest.mark.parametrize("page", [page for page in TRANSLATIONS if page not in READMES], ids=name_of)
def test_a_translation_links_to_translations(page: Path) -> None:
    """So that a reader on GitHub stays in Chinese; on the site every link does."""
    targets = [(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(page.read_text())]
    originals = {original for translated, original in TRANSLATIONS.items() if translated != page}
    assert {target for target in targets if target in originals} == set()


@pytest.mark.parametrize("page", TRANSLATIONS, ids=name_of)
def test_a_translation_shows_what_is_executed(page: Path) -> None:
    """It may lag behind its English page, but not show a command or output that no test has seen."""
    unknown = copy_commands.unknown_blocks(page.read_text(), TRANSLATIONS[page].read_text())
    assert unknown == [], "run python -m scripts.copy_commands"


def test_the_number_of_kinds_of_damage_is_right() -> None:
    kinds = len({recipe.id.partition("-")[0] for recipe in RECIPES})
    said = [int(n) for page in PAGES for n in re.findall(r"(\d+) (?:kinds of damage|种损坏)", page.read_text())]
    assert set(said) == {kinds}


@cache
def anchors_of(page: Path) -> set[str]:
    """Names of a page's headings as GitHub makes them."""
    prose = FENCE.sub("", page.read_text())
    return {re.sub(r"[^\w\- ]", "", match[2].lower()).replace(" ", "-") for match in HEADING.finditer(prose)}


def test_links_lead_somewhere() -> None:
    for page in TEXTS:
        for link in LINK.findall(FENCE.sub("", page.read_text())):
            if link.startswith(("https://", "http://")):
                continue
            target, _, anchor = link.partition("#")
            file = (page.parent / target).resolve() if target else page
            assert file.exists(), (page, link)
            assert file.is_relative_to(ROOT), (page, link)
            assert not anchor or anchor in anchors_of(file), (page, link)


def test_every_row_stands_in_a_table() -> None:
    """One that an empty line cuts off is shown as text."""
    for page in TEXTS:
        blocks = FENCE.sub("", page.read_text()).split("\n\n")
        tables = [block.strip().split("\n") for block in blocks if block.strip().startswith("|")]
        without = [table[0] for table in tables if len(table) < 2 or not re.fullmatch(r"\|[-:| ]+\|", table[1])]
        assert without == [], page


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_list_of_findings_is_that_of_the_rules(language: str) -> None:
    """A rule may do without its line until the next release, but no line may be wrong."""
    listed = [line for line in list_findings.PAGES[language].read_text().splitlines() if line.startswith("| [")]
    assert set(listed) <= list_findings.rows(language), "run scripts/list_findings.py"
    assert len(listed) == len(set(listed))


def test_no_page_names_a_folder_of_a_developer() -> None:
    assert {name_of(page) for page in (*TEXTS, *DRAWN) if DEVELOPER_PATH.search(page.read_text())} == set()
