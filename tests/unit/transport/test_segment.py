# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from rpent_box.errors import SharedMemoryFull, TransportError
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.segment import Segment, SegmentView, segment_is_dead


def shm(name: str) -> Path:
    return Path("/dev/shm") / name.lstrip("/")


def test_a_segment_is_linked_into_the_grants_and_leaves_both_places(box: BoxPaths) -> None:
    name = box.segment_name("a")
    with Segment.create(name, 8192, grants=box.grants) as segment:
        granted = box.grants / name.lstrip("/")
        assert granted.samefile(shm(name))
        assert stat.S_IMODE(granted.stat().st_mode) == 0o600
        assert granted.stat().st_size == len(segment.buffer) == 8192
    assert not granted.exists()
    assert not shm(name).exists()
    segment.close()


def test_every_page_is_allocated_at_creation(box: BoxPaths) -> None:
    with Segment.create(box.segment_name("a"), 1 << 20) as segment:
        assert shm(segment.name).stat().st_blocks * 512 >= 1 << 20


def test_a_reader_sees_what_the_owner_writes_and_cannot_write(box: BoxPaths) -> None:
    with (
        Segment.create(box.segment_name("a"), 4096) as segment,
        SegmentView.open(segment.name) as view,
    ):
        segment.buffer[17] = 200
        assert view.buffer[17] == 200
        assert view.size == 4096
        with pytest.raises(TypeError, match="read-only"):
            view.buffer[17] = 1


def test_a_reader_finds_a_segment_in_the_grants_alone(box: BoxPaths) -> None:
    with Segment.create(box.segment_name("a"), 4096, grants=box.grants) as segment:
        shm(segment.name).unlink()
        with SegmentView.open(segment.name, search=[box.results, box.grants]) as view:
            assert view.size == 4096


def test_a_segment_may_be_a_file_in_a_directory(box: BoxPaths) -> None:
    with Segment.create(box.segment_name("a"), 4096, directory=box.results) as segment:
        assert not shm(segment.name).exists()
        segment.buffer[:4] = b"abcd"
        with SegmentView.open(segment.name, search=[box.results]) as view:
            assert bytes(view.buffer[:4]) == b"abcd"
    assert list(box.results.iterdir()) == []


def test_a_name_is_taken_once(box: BoxPaths) -> None:
    with Segment.create(box.segment_name("a"), 4096) as segment:
        with pytest.raises(TransportError, match="exists already"):
            Segment.create(segment.name, 4096)
        assert shm(segment.name).stat().st_size == 4096


def test_a_size_beyond_all_shared_memory_is_a_clear_error_and_leaves_nothing(
    box: BoxPaths,
) -> None:
    room = os.statvfs("/dev/shm")
    size = (room.f_blocks + 1) * room.f_frsize
    with pytest.raises(SharedMemoryFull) as caught:
        Segment.create(box.segment_name("a"), size, grants=box.grants)
    assert f"{size / 2**20:.1f} MiB are needed" in str(caught.value)
    assert "are free" in str(caught.value)
    assert "rpent-box gc" in caught.value.hint
    assert not shm(box.segment_name("a")).exists()


def test_a_failed_grant_leaves_nothing(box: BoxPaths, tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="cannot grant"):
        Segment.create(box.segment_name("a"), 4096, grants=tmp_path / "missing")
    assert not shm(box.segment_name("a")).exists()


def test_closing_below_living_arrays_is_no_error_and_they_stay_readable(box: BoxPaths) -> None:
    segment = Segment.create(box.segment_name("a"), 4096)
    segment.buffer[0] = 42
    view = SegmentView.open(segment.name)
    array = np.frombuffer(view.buffer, np.uint8)
    view.close()
    segment.close()
    assert array[0] == 42
    view.close()


def test_a_missing_segment_says_why_it_might_be_missing(box: BoxPaths) -> None:
    with pytest.raises(TransportError, match="not here"):
        SegmentView.open(box.segment_name("nobody"), search=[box.grants])


def test_an_empty_segment_is_refused(box: BoxPaths) -> None:
    (box.results / "rpent-box.x").touch()
    with pytest.raises(TransportError, match="empty"):
        SegmentView.open("/rpent-box.x", search=[box.results])


@pytest.mark.parametrize("name", ["", "/", "/..", "/a/b", "/../../etc/passwd"])
def test_a_name_with_a_way_in_it_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="not a segment's name"):
        SegmentView.open(name, search=[tmp_path])


def test_links_and_pipes_in_a_search_directory_are_not_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * 4096)
    search = tmp_path / "search"
    search.mkdir()
    (search / "rpent-box.link").symlink_to(secret)
    os.mkfifo(search / "rpent-box.pipe")
    for name in ("/rpent-box.link", "/rpent-box.pipe"):
        with pytest.raises(TransportError, match="not here"):
            SegmentView.open(name, search=[search])


def test_the_owners_lock_tells_the_living_from_the_dead(box: BoxPaths) -> None:
    segment = Segment.create(box.segment_name("a"), 4096)
    path = shm(segment.name)
    with SegmentView.open(segment.name) as view:
        assert not view.owner_is_gone()
        assert not segment_is_dead(path)
        segment.close()
        assert view.owner_is_gone()
    assert not segment_is_dead(path), "it is gone, not dead"


def test_a_shrunk_file_is_noticed(box: BoxPaths) -> None:
    with (
        Segment.create(box.segment_name("a"), 8192) as segment,
        SegmentView.open(segment.name) as view,
    ):
        assert view.is_whole()
        os.truncate(shm(segment.name), 4096)
        assert not view.is_whole()
