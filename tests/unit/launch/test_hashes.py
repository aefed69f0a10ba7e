# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import msgspec
import pytest

from rpent_box.errors import BadCheckpoint
from rpent_box.launch import hashes
from rpent_box.launch.hashes import CACHE_FILE, FileHashes

SOME_HASH = hashlib.sha256(b"some").hexdigest()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.pt"
    path.write_bytes(b"some")
    age(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "rpent-box"


def age(path: Path, seconds: float = 60.0) -> None:
    """Make a file look as if it had been written a while ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def hashed(path: Path, folder: Path | None) -> str:
    known = FileHashes(folder)
    digest = known.sha256(path, say=lambda text: None)
    known.save()
    return digest


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files whose contents were really read."""
    read: list[Path] = []
    really = hashes._hash

    def count(path: Path, size: int, say: hashes.Say) -> str:
        read.append(path)
        return really(path, size, say)

    monkeypatch.setattr(hashes, "_hash", count)
    return read


def test_a_file_is_read_once(weights: Path, folder: Path, counted: list[Path]) -> None:
    assert [hashed(weights, folder) for _ in range(3)] == [SOME_HASH] * 3
    assert counted == [weights]


def test_another_name_for_the_same_file_is_no_news(
    weights: Path, folder: Path, counted: list[Path]
) -> None:
    hashed(weights, folder)
    link = weights.with_name("named.pt")
    link.symlink_to(weights)
    assert hashed(link, folder) == SOME_HASH
    assert counted == [weights]


def test_new_contents_are_read_even_where_size_and_time_are_put_back(
    weights: Path, folder: Path
) -> None:
    hashed(weights, folder)
    before = weights.stat()
    weights.write_bytes(b"emos")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert hashed(weights, folder) == hashlib.sha256(b"emos").hexdigest()


def test_a_file_put_in_its_place_is_read(weights: Path, folder: Path) -> None:
    hashed(weights, folder)
    other = weights.with_name("other.pt")
    other.write_bytes(b"emos")
    age(other)
    other.replace(weights)
    assert hashed(weights, folder) == hashlib.sha256(b"emos").hexdigest()


def test_a_file_that_was_just_written_is_not_remembered(
    weights: Path, folder: Path, counted: list[Path]
) -> None:
    weights.touch()
    hashed(weights, folder)
    hashed(weights, folder)
    assert counted == [weights] * 2


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"a": 1}', b"\xff", b'{"\xff": ""}'])
def test_a_damaged_memory_is_forgotten_and_made_anew(
    weights: Path, folder: Path, content: bytes
) -> None:
    folder.mkdir(parents=True)
    (folder / CACHE_FILE).write_bytes(content)
    assert hashed(weights, folder) == SOME_HASH
    kept = msgspec.json.decode((folder / CACHE_FILE).read_bytes(), type=dict[str, str])
    assert list(kept.values()) == [SOME_HASH]


def test_a_memory_that_cannot_be_written_is_no_error(weights: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert hashed(weights, tmp_path / "file" / "cache") == SOME_HASH


def test_without_a_folder_nothing_is_written(weights: Path, tmp_path: Path) -> None:
    assert hashed(weights, None) == SOME_HASH
    assert sorted(path.name for path in tmp_path.iterdir()) == ["weights.pt"]


def test_two_at_once_keep_what_the_other_has_learnt(weights: Path, folder: Path) -> None:
    second = weights.with_name("second.pt")
    second.write_bytes(b"second")
    age(second)
    one, other = FileHashes(folder), FileHashes(folder)
    one.sha256(weights, say=print)
    other.sha256(second, say=print)
    one.save()
    other.save()
    assert len(msgspec.json.decode((folder / CACHE_FILE).read_bytes())) == 2


def test_the_oldest_are_forgotten_first(
    weights: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "REMEMBERED", 2)
    for name in ("a", "b", "c"):
        path = weights.with_name(name)
        path.write_text(name)
        age(path)
        hashed(path, folder)
    kept = msgspec.json.decode((folder / CACHE_FILE).read_bytes(), type=dict[str, str])
    assert [Path(key.split("\0")[0]).name for key in kept] == ["b", "c"]


def test_a_large_file_tells_how_far_it_is(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "PIECE_BYTES", 1)
    monkeypatch.setattr(hashes, "SAY_EVERY_S", 0.0)
    said: list[str] = []
    FileHashes(None).sha256(weights, say=said.append)
    assert said == [f"hashing weights.pt: {part}% of 0.0 GB" for part in (25, 50, 75, 100)]


def test_a_file_that_changes_while_it_is_read_is_refused(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "PIECE_BYTES", 1)
    monkeypatch.setattr(hashes, "SAY_EVERY_S", 0.0)
    with pytest.raises(BadCheckpoint, match="changed while it was read"):
        FileHashes(None).sha256(weights, say=lambda _: weights.write_bytes(b"some more"))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="No such file"):
        FileHashes(None).sha256(tmp_path / "nowhere", say=print)


def test_a_name_that_is_no_text_is_remembered_too(
    weights: Path, folder: Path, counted: list[Path]
) -> None:
    odd = weights.rename(os.fsdecode(os.fsencode(weights) + b"\xff"))
    assert [hashed(odd, folder) for _ in range(2)] == [SOME_HASH] * 2
    assert counted == [odd]
