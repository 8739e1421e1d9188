"""From what the user named to the files to read."""

import json
import os
from pathlib import Path

import pytest

from redline.errors import InputError, UsageError
from redline.job.find_files import find_traces


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def found(*named: str | Path, within: Path) -> list[str]:
    return [path.relative_to(within).as_posix() for path in find_traces(named)]


def test_a_folder_means_the_traces_in_it_and_below(tmp_path: Path) -> None:
    names = ["a.json", "b.json.gz", "c.json.zst", "deep/er/d.json", "e.tar", "f.tar.gz", "g.tgz", "h.tar.zst"]
    touch(tmp_path, *names, "notes.txt", "model.pt", "snapshot.pickle.gz", "json")
    assert sorted(found(tmp_path, within=tmp_path)) == sorted(names)


@pytest.mark.parametrize("name", ["x" * 256, "\u4e2d" * 86, "dp:1" + "0" * 3_000, "a/" * 3_000])
def test_a_name_that_no_file_can_have_is_said_in_a_line(name: str) -> None:
    with pytest.raises(InputError, match=rf"\.\.\.: no file has a name of {len(name):,} characters; check it$"):
        find_traces(name)


def test_what_redline_itself_writes_is_no_trace(tmp_path: Path) -> None:
    touch(tmp_path, "rank-0.json", "run.json", "truth.json", "manifest.json")
    assert found(tmp_path, within=tmp_path) == ["rank-0.json"]


def test_numbers_in_names_are_ordered_as_numbers(tmp_path: Path) -> None:
    touch(tmp_path, *(f"node-{node}/rank-{rank}.json" for node in (10, 2) for rank in (11, 3, 100)))
    assert found(tmp_path, within=tmp_path) == [
        f"node-{node}/rank-{rank}.json" for node in (2, 10) for rank in (3, 11, 100)
    ]


def test_a_file_is_taken_whatever_its_name(tmp_path: Path) -> None:
    touch(tmp_path, "odd name.bin", "run.json")
    assert found(tmp_path / "odd name.bin", tmp_path / "run.json", within=tmp_path) == ["odd name.bin", "run.json"]


def test_a_pattern_means_what_it_matches(tmp_path: Path) -> None:
    touch(tmp_path, "a1.json", "a2.json", "b.json", "sub/a3.json")
    assert found(f"{tmp_path}/a*.json", within=tmp_path) == ["a1.json", "a2.json"]
    assert found(f"{tmp_path}/**/a*.json", within=tmp_path) == ["a1.json", "a2.json", "sub/a3.json"]


def test_a_pattern_may_match_folders(tmp_path: Path) -> None:
    touch(tmp_path, "run1/a.json", "run2/b.json")
    assert found(f"{tmp_path}/run*", within=tmp_path) == ["run1/a.json", "run2/b.json"]


def test_a_name_with_brackets_is_a_name_before_it_is_a_pattern(tmp_path: Path) -> None:
    touch(tmp_path, "trace[1].json", "trace1.json")
    assert found(tmp_path / "trace[1].json", within=tmp_path) == ["trace[1].json"]


def test_what_is_named_twice_is_read_once(tmp_path: Path) -> None:
    touch(tmp_path, "a.json", "b.json")
    assert found(tmp_path / "b.json", tmp_path, f"{tmp_path}/*.json", within=tmp_path) == ["b.json", "a.json"]


def test_what_is_named_in_two_spellings_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a.json")
    monkeypatch.chdir(tmp_path)
    assert len(find_traces(["a.json", tmp_path / "a.json"])) == 1


@pytest.mark.parametrize("finished", ["r.json", "r.json.gz"])
def test_an_unfinished_export_gives_way_to_the_finished_one(tmp_path: Path, finished: str) -> None:
    touch(tmp_path, "r.json.tmp", finished, "other.json.tmp", "s.json.gz.tmp")
    assert found(tmp_path, within=tmp_path) == sorted(["other.json.tmp", finished, "s.json.gz.tmp"])


def test_an_unfinished_export_is_read_where_the_user_names_it(tmp_path: Path) -> None:
    touch(tmp_path, "r.json.tmp", "r.json")
    assert found(tmp_path / "r.json.tmp", within=tmp_path) == ["r.json.tmp"]


def test_a_folder_without_traces(tmp_path: Path) -> None:
    touch(tmp_path, "notes.txt")
    with pytest.raises(InputError) as caught:
        find_traces([tmp_path])
    assert str(caught.value) == (
        f"{tmp_path}: no trace in this folder (looked for .json, .json.gz, .json.zst, .json.tmp and archives)."
    )


@pytest.mark.parametrize("name", ["missing.json", "none*.json"])
def test_nothing_of_that_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        find_traces([tmp_path / name])
    assert str(caught.value) == f"{tmp_path}/{name}: no such file or folder, and as a pattern it matches nothing."


def test_links_are_followed_and_circles_are_survived(tmp_path: Path) -> None:
    touch(tmp_path, "real/a.json")
    (tmp_path / "real" / "round").symlink_to(tmp_path / "real")
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "a.json")
    assert set(found(tmp_path, within=tmp_path)) == {"link.json", "real/a.json"}


@pytest.mark.parametrize("times", [2, 99])
def test_a_folder_that_goes_while_it_is_looked_into_is_looked_for_again(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "a.json", "deep/b.json")
    left, scandir = [times], os.scandir

    def gone(path: object) -> object:
        if str(path).endswith("deep") and left[0]:
            left[0] -= 1
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return scandir(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", gone)
    if times == 2:
        assert found(tmp_path, within=tmp_path) == ["a.json", "deep/b.json"]
        return
    with pytest.raises(
        InputError, match=r": what is in it cannot be listed \(.*/deep: No such file or directory\); name"
    ):
        find_traces(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX only")
def test_names_that_are_no_text_are_found(tmp_path: Path) -> None:
    name = os.fsdecode(b"rank-\xff.json")
    try:
        touch(tmp_path, name)
    except OSError:
        pytest.skip("this file system takes names that are text only")
    assert found(tmp_path, within=tmp_path) == [name]


def test_one_path_needs_no_list(tmp_path: Path) -> None:
    touch(tmp_path, "a.json")
    assert find_traces(str(tmp_path)) == find_traces(tmp_path) == [tmp_path / "a.json"]


def test_no_path_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="no path was given"):
        find_traces([])


def test_of_a_run_the_newest_window_is_taken(tmp_path: Path) -> None:
    touch(tmp_path, "run.json", "steps/rank-0.json", "window-2/rank-0.trace.json.gz", "window-10/rank-0.trace.json.gz")
    assert found(tmp_path, within=tmp_path) == ["window-10/rank-0.trace.json.gz"]
    (tmp_path / "window-11").mkdir()  # nothing was written there
    touch(tmp_path, "window-12/rank-0.trace.json.gz.part")
    assert found(tmp_path, within=tmp_path) == ["window-10/rank-0.trace.json.gz"]
    touch(tmp_path, "restart-1/window-1/rank-0.trace.json.gz", "restart-1/window-1/rank-1.trace.json.gz")
    assert len(found(tmp_path, within=tmp_path)) == 2
    assert found(tmp_path / "window-2", within=tmp_path) == ["window-2/rank-0.trace.json.gz"]


def once_each(*named: str | Path, within: Path) -> list[str]:
    return [path.relative_to(within).as_posix() for path in find_traces(named, digests=True)]


def test_of_a_run_with_digests_the_newest_window_is_taken_and_each_rank_once(tmp_path: Path) -> None:
    traces = [f"window-2/rank-{rank}.trace.json.gz" for rank in (0, 1)]
    touch(tmp_path, "run.json", "steps/rank-0.json", *traces, "digests/window-1/rank-0.digest")
    assert once_each(tmp_path, within=tmp_path) == traces
    digests = [f"digests/window-2/rank-{rank}.digest" for rank in (0, 1)]
    touch(tmp_path, *digests)
    assert once_each(tmp_path, within=tmp_path) == traces  # all are there
    (tmp_path / traces[0]).unlink()
    assert once_each(tmp_path, within=tmp_path) == digests
    assert found(tmp_path, within=tmp_path) == traces[1:]  # where digests are not asked for
    touch(tmp_path, "window-2/rank-2.trace.json.gz")  # whose digest failed
    assert once_each(tmp_path, within=tmp_path) == [*digests, "window-2/rank-2.trace.json.gz"]
    touch(tmp_path, "digests/window-10/rank-0.digest")  # of which all traces were deleted
    assert once_each(tmp_path, within=tmp_path) == ["digests/window-10/rank-0.digest"]
    touch(tmp_path, "digests/restart-1/window-1/rank-0.digest")
    assert once_each(tmp_path, within=tmp_path) == ["digests/restart-1/window-1/rank-0.digest"]


def test_a_window_of_digests_and_all_digests_of_a_run_can_be_named(tmp_path: Path) -> None:
    touch(tmp_path, "run.json", "digests/window-1/rank-0.digest", "digests/window-2/rank-0.digest")
    assert once_each(tmp_path / "digests/window-1", within=tmp_path) == ["digests/window-1/rank-0.digest"]
    assert once_each(tmp_path / "digests", within=tmp_path) == ["digests/window-2/rank-0.digest"]


def test_while_a_run_goes_on_its_newest_window_is_taken_from_its_digests(tmp_path: Path) -> None:
    touch(tmp_path, "digests/window-1/rank-0.digest", "digests/window-2/rank-0.digest", "window-2/rank-0.trace.json.gz")
    assert once_each(tmp_path, within=tmp_path) == ["window-2/rank-0.trace.json.gz"]


def test_a_run_without_traces_is_no_folder_of_traces(tmp_path: Path) -> None:
    touch(tmp_path, "run.json", "steps/rank-0.json")
    with pytest.raises(InputError, match=r"nothing of this run was captured: .*run\.json says why"):
        find_traces([tmp_path])


@pytest.mark.parametrize(
    ("steps", "settings", "why"),
    [
        (0, {}, r"in 9 s no steps were recognised .*Call redline\.step\(\) at the end of each step"),
        (5, {}, "it took 5 steps, and the first window follows 8"),
        (40, {"capture": False}, "it ran with --watch-only"),
    ],
)
def test_a_run_without_traces_says_why(tmp_path: Path, steps: int, settings: dict[str, object], why: str) -> None:
    touch(tmp_path, "run.json", "steps/rank-0.json")
    record = {
        "ranks": [{"steps": steps, "facts": {"versions": {}}}],
        "settings": {"capture": True, "after": 8, "when": "", **settings},
        "wall_ns": 9_000_000_000,
    }
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=why):
        find_traces(tmp_path)
