# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rpent_box.backends.checkpoint_files import (
    find_file,
    find_files,
    find_optional_file,
    read_json,
    read_text,
    read_yaml,
    require_file,
    require_folder,
)
from rpent_box.contracts.checkpoint import WRITTEN_FILE
from rpent_box.errors import BadCheckpoint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("model.pt", "stats.json", "deep/er/norm_stats.json", "shard-2.bin", "shard-1.bin"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"content")
    return tmp_path


def test_the_first_pattern_that_fits_wins(folder: Path) -> None:
    found = find_file(folder, "absent.pt", "*.pt", "stats.json", role="weights")
    assert (found.role, found.path) == ("weights", str(folder / "model.pt"))


def test_a_manifest_of_ours_is_no_file_of_the_models(folder: Path) -> None:
    for name in (WRITTEN_FILE, f"model.pt.{WRITTEN_FILE}"):
        (folder / name).write_text("{}")
    assert find_file(folder, "*.json", role="statistics").path == str(folder / "stats.json")


def test_a_pattern_may_look_deeper(folder: Path) -> None:
    found = find_file(folder, "**/norm_stats.json", role="statistics")
    assert found.path == str(folder / "deep/er/norm_stats.json")


def test_a_missing_file_is_refused_with_what_was_wanted_and_what_is_there(folder: Path) -> None:
    with pytest.raises(BadCheckpoint) as caught:
        find_file(folder, "vae.pth", "vae/*.pth", role="vae", hint="Give it: --vae PATH")
    assert "has no vae: wanted vae.pth or vae/*.pth" in caught.value.message
    assert "there is deep/, model.pt, shard-1.bin, shard-2.bin, stats.json" in caught.value.message
    assert caught.value.hint == "Give it: --vae PATH"


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="there is nothing"):
        find_file(tmp_path, "*.pt", role="weights")


def test_a_crowded_folder_is_not_listed_to_its_end(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02d}.txt").write_text("x")
    with pytest.raises(BadCheckpoint, match="11.txt and 18 more"):
        find_file(tmp_path, "*.pt", role="weights")


def test_two_files_that_fit_are_refused_with_both_names(folder: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"2 files that could be the weights: shard-1.bin, sha"):
        find_file(folder, "shard-*.bin", role="weights")


def test_an_optional_file_may_be_missing_but_not_broken(folder: Path) -> None:
    assert find_optional_file(folder, "vae.pth", role="vae") is None
    (folder / "vae.pth").touch()
    with pytest.raises(BadCheckpoint, match="is empty"):
        find_optional_file(folder, "vae.pth", role="vae")


def test_all_shards_are_found_in_order(folder: Path) -> None:
    found = find_files(folder, "shard-*.bin", role="weights")
    assert [Path(file.path).name for file in found] == ["shard-1.bin", "shard-2.bin"]
    with pytest.raises(BadCheckpoint, match=r"wanted \*\.safetensors"):
        find_files(folder, "*.safetensors", role="weights")


def test_a_link_keeps_its_name_and_a_dead_one_is_refused(folder: Path) -> None:
    (folder / "named.pt").symlink_to("shard-1.bin")
    assert find_file(folder, "named.pt", role="weights").path == str(folder / "named.pt")
    (folder / "dead.pt").symlink_to("../blobs/abc")
    with pytest.raises(BadCheckpoint, match=r"is a link to \.\./blobs/abc, which is not there"):
        find_file(folder, "dead.pt", role="weights")


def test_a_path_that_an_option_names_is_made_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "deep")
    monkeypatch.setenv("HOME", str(folder))
    assert require_file("../model.pt", role="weights").path == str(folder / "model.pt")
    assert require_file("~/stats.json", role="statistics").path == str(folder / "stats.json")


@pytest.mark.parametrize(("path", "there"), [("deep", "a folder"), ("nowhere", "not there")])
def test_what_is_no_file_is_refused(folder: Path, path: str, there: str) -> None:
    with pytest.raises(BadCheckpoint, match=f"{path} is {there}; wanted a file"):
        require_file(folder / path, role="weights")


@pytest.mark.parametrize(("path", "there"), [("model.pt", "a file"), ("nowhere", "not there")])
def test_what_is_no_folder_is_refused(folder: Path, path: str, there: str) -> None:
    with pytest.raises(BadCheckpoint, match=f"{path} is {there}; wanted the folder"):
        require_folder(folder / path, role="tokenizer")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>Sign in</html>", "web page"),
        (b"\n <html>", "web page"),
        (b"", "empty"),
    ],
)
def test_what_a_download_left_in_place_of_a_file_is_called_by_its_name(
    tmp_path: Path, content: bytes, what: str
) -> None:
    (tmp_path / "model.pt").write_bytes(content)
    with pytest.raises(BadCheckpoint, match=what):
        find_file(tmp_path, "model.pt", role="weights")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(folder: Path) -> None:
    (folder / "model.pt").chmod(0)
    with pytest.raises(BadCheckpoint, match="cannot be read: Permission denied"):
        find_file(folder, "model.pt", role="weights")


def test_json_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"action": {"min": [0.5]}}')
    assert read_json(tmp_path / "a.json", role="statistics") == {"action": {"min": [0.5]}}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": 1', "is not JSON"),
        (b"[1, 2]", "holds a list; wanted an object"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "is not JSON"),
    ],
)
def test_json_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(BadCheckpoint, match=f"the statistics .*a.json {reason}"):
        read_json(tmp_path / "a.json", role="statistics")


def test_yaml_is_read_and_its_tags_make_no_objects(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model:\n  layers: 3\n")
    assert read_yaml(path, role="configuration") == {"model": {"layers": 3}}
    for text in ("!!python/object/apply:os.system ['true']", "day: 2026-02-31", "[" * 10_000):
        path.write_text(text)
        with pytest.raises(BadCheckpoint, match="is not YAML"):
            read_yaml(path, role="configuration")


def test_without_a_yaml_reader_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(BadCheckpoint) as caught:
        read_yaml(tmp_path / "a.yaml", role="configuration")
    assert "rpent-box[adapters]" in caught.value.hint


def test_a_text_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="No such file"):
        read_text(tmp_path / "nowhere", role="prompt")
