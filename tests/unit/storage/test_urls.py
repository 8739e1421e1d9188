"""Paths whose text is a URL, and what of a URL is never shown."""

import pickle
from pathlib import Path

import pytest

from redline.errors import StorageError, UsageError
from redline.storage import is_remote, known_objects, path_of, shown

SIGNED = "https://host/run/rank0.json.gz?X-Amz-Credential=AKIA1&X-Amz-Signature=5ecre7"


@pytest.mark.parametrize("name", ["run", "/tmp/run/rank0.json", "a:b", "s3:/bucket", "C://x", "*.json"])
def test_names_of_this_machine_stay_what_they_are(name: str) -> None:
    assert path_of(name) == Path(name)
    assert type(path_of(name)) is type(Path(name))
    assert shown(name) == name


def test_a_path_is_shown_as_its_url() -> None:
    path = path_of("s3://bucket/run/rank0.json.gz")
    assert is_remote(path)
    assert (str(path), f"{path}", path.name) == ("s3://bucket/run/rank0.json.gz",) * 2 + ("rank0.json.gz",)
    assert str(path.parent / "run.json") == "s3://bucket/run/run.json"
    assert str(path.with_suffix(".zst")) == "s3://bucket/run/rank0.json.zst"
    assert str(path.absolute()) == str(path.resolve()) == str(path)
    assert {path, path_of("s3://bucket/run//rank0.json.gz")} == {path}
    assert str(path_of("hdfs:///run/a.json")) == "hdfs:///run/a.json"
    assert str(path_of("S3://bucket/run/")) == "s3://bucket/run"


@pytest.mark.parametrize("url", ["ftp://me:hunter22@host/run", "s3://AKIAX:hunter22@bucket/run", SIGNED])
def test_what_gives_access_is_kept_beside(url: str) -> None:
    path = path_of(url)
    assert any(known_objects.access_of(str(path)))
    assert known_objects.with_access(str(path)) == url.replace("AKIAX:hunter22@", "")
    for text in (str(path), repr(path), shown(url), str(path / "x"), str(path.parent)):
        assert not any(secret in text for secret in ("hunter22", "5ecre7", "AKIA1", "AKIAX", "me:"))


def test_access_goes_with_a_path_to_other_processes() -> None:
    path = path_of("s3://AKIAX:hunter22@bucket/run/a.json")
    packed = pickle.dumps(path)
    known_objects._users.clear()
    assert pickle.loads(packed) == path
    assert known_objects.access_of(str(path)) == ("AKIAX:hunter22", "")


def test_an_object_has_one_query() -> None:
    path_of(SIGNED)
    path_of(SIGNED)
    with pytest.raises(UsageError, match="given with two different queries; name each object once"):
        path_of(SIGNED.replace("5ecre7", "other"))


def test_what_is_in_the_memory_of_a_process_stays_there() -> None:
    with pytest.raises(StorageError, match="in the memory of this process alone; use `jobs=1`, or files"):
        pickle.dumps(path_of("memory://run/a.json"))


def test_a_file_url_is_a_path_of_this_machine() -> None:
    assert path_of("file:///tmp/a%20b.json") == path_of("file://localhost/tmp/a%20b.json") == Path("/tmp/a b.json")
    with pytest.raises(UsageError, match="names no file of this machine; write it as file:///folder/file"):
        path_of("file://elsewhere/tmp/a.json")
