"""Objects and folders of a store, asked about as files are."""

import sys
from collections.abc import Callable

import pytest

from redline.errors import InputError, StorageError
from redline.job.find_files import find_traces
from redline.storage import look_anew, matches, path_of
from redline.storage.listing import _s3_objects
from redline.trace.cache import state_of

Put = Callable[[str, bytes], None]
NAMES = ("run.json", "window-1/rank2.json.gz", "window-1/rank10.json.gz", "window-1/.hidden", "steps/a.txt")


@pytest.fixture
def run(put: Put) -> str:
    for name in NAMES:
        put(f"memory://run/{name}", b"{}")
    return "memory://run"


def test_a_folder_is_listed_once_and_asked_about_as_one_of_this_machine(run: str) -> None:
    folder = path_of(run)
    assert folder.is_dir()
    assert not folder.is_file()
    assert sorted(path.name for path in folder.iterdir()) == ["run.json", "steps", "window-1"]
    assert sorted(str(path) for path in folder.rglob("*") if path.is_file()) == sorted(f"{run}/{it}" for it in NAMES)
    assert [str(path) for path in folder.rglob("window-*")] == [f"{run}/window-1"]
    assert (folder / "run.json").is_file()
    assert (folder / "run.json").stat().st_size == 2
    assert not (folder / "other.json").exists()
    assert (folder / "run.json").read_bytes() == b"{}"


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("/window-1/*.json.gz", ("window-1/rank10.json.gz", "window-1/rank2.json.gz")),
        ("/**/*.json", ("run.json",)),
        ("/**/a.*", ("steps/a.txt",)),
        ("/window-[12]/rank?.json.gz", ("window-1/rank2.json.gz",)),
        ("/*", ("run.json", "steps", "window-1")),
        ("/run.json", ("run.json",)),
        ("/nothing*", ()),
    ],
)
def test_patterns_mean_what_they_mean_on_this_machine(run: str, pattern: str, meant: tuple[str, ...]) -> None:
    assert sorted(map(str, matches(run + pattern))) == [f"{run}/{name}" for name in meant]


def test_a_folder_means_its_newest_window(put: Put, run: str) -> None:
    put("memory://run/window-2/rank0.json.gz", b"{}")
    assert list(map(str, find_traces(run))) == ["memory://run/window-2/rank0.json.gz"]
    put("memory://run/window-2/rank1.json.gz", b"{}")
    assert len(find_traces(run)) == 2, "what was found is looked for again when it is named again"


def test_nothing_there_is_said_as_of_files(run: str) -> None:
    with pytest.raises(InputError, match=r"^memory://run/none: no such file or folder, and as a pattern it matches no"):
        find_traces(f"{run}/none")
    with pytest.raises(InputError, match=r"^memory://run/steps/: no trace in this folder"):
        find_traces(f"{run}/steps/")


def test_another_content_has_another_state(put: Put) -> None:
    path = path_of("memory://run/a.json")
    put(str(path), b"one")
    before = state_of(path)
    assert state_of(path) == before
    put(str(path), b"two")
    look_anew(path)
    assert state_of(path).key != before.key


def test_what_one_of_two_listings_lacks_is_asked_for(put: Put, faulty: type) -> None:
    for number in range(4):
        put(f"faulty://run/rank{number}.json.gz", b"{}")
    folder = path_of("faulty://run")
    for answers in ([b"", b"lossy", b""], [b"lossy", b""]):
        look_anew(folder)
        left = iter([*answers, *[b""] * 9])
        faulty.fails = lambda kind, data, left=left: next(left) if kind == "list" else data  # type: ignore[attr-defined]
        assert len(list(folder.iterdir())) == 4


def test_what_is_removed_while_it_is_listed_is_not_listed(put: Put, faulty: type) -> None:
    put("faulty://run/a.json", b"{}")
    put("faulty://run/b.json", b"{}")
    calls: list[str] = []

    def removing(kind: str, data: bytes) -> bytes:
        calls.append(kind)
        if len(calls) == 1:
            faulty.store.pop("/run/a.json")  # type: ignore[attr-defined]
        return data

    faulty.fails = removing  # type: ignore[attr-defined]
    assert list(map(str, path_of("faulty://run").iterdir())) == ["faulty://run/b.json"]


class Pages:
    """What an S3 client answers to listings, page by page."""

    def __init__(self, *pages: dict[str, object]) -> None:
        self._pages = list(pages)

    def call_s3(self, operation: str, **asked: str) -> dict[str, object]:
        return self._pages.pop(0)


def page(*names: str, **more: object) -> dict[str, object]:
    contents = [{"Key": f"run/{name}", "Size": 1, "ETag": '"e"'} for name in names]
    return {"Contents": contents, "KeyCount": len(names), "IsTruncated": False, **more}


def test_pages_of_a_listing_are_checked() -> None:
    endless = page("a", IsTruncated=True)
    going_on = page("a", IsTruncated=True, NextContinuationToken="t")
    lossy = page("b") | {"KeyCount": 2}
    names = [name for name, _ in _s3_objects(Pages(endless, going_on, lossy, page("b", "c/")), "s3://bucket/run")]
    assert names == ["s3://bucket/run/a", "s3://bucket/run/b"], "c/ is a console's mark of a folder"
    with pytest.raises(StorageError, match=r"says that there is more, and not how to get it \(8 tries\)"):
        list(_s3_objects(Pages(*[endless] * 8), "s3://bucket/run"))
    with pytest.raises(StorageError, match=r"has 1 objects and says 2 \(8 tries\)"):
        list(_s3_objects(Pages(*[lossy] * 8), "s3://bucket/run"))
    with pytest.raises(StorageError, match="s3://bucket/run//x: a name with an empty part"):
        list(_s3_objects(Pages(page("/x")), "s3://bucket/run"))


def test_there_are_no_folders_behind_http(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match=r"https://host/run: no file, and only files can be named there; name each"):
        list(path_of("https://host/run").iterdir())


@pytest.mark.parametrize(
    ("url", "absent", "message"),
    [
        ("s3://bucket/run", "s3fs", r"s3:// needs s3fs: pip install 'redline-perf\[s3\]'"),
        ("gs://bucket/run", "gcsfs", r"gs:// needs gcsfs: pip install 'redline-perf\[gcs\]'"),
        ("hdfs://host/run", "fsspec", r"hdfs:// needs pyarrow: pip install 'redline-perf\[hdfs\]'"),
        ("abfs://box/run", "adlfs", r"abfs:// needs fsspec, and what it needs for this store: pip install"),
        ("nonsense://run", "", r"nonsense:// is no kind of store that fsspec knows"),
    ],
)
def test_what_is_not_installed_is_one_line(
    monkeypatch: pytest.MonkeyPatch, url: str, absent: str, message: str
) -> None:
    if absent:
        monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(StorageError, match=message) as caught:
        path_of(url).exists()
    assert "\n" not in str(caught.value)
