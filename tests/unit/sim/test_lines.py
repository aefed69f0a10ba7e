# SPDX-License-Identifier: Apache-2.0
"""Lines are whole or do not count, whenever their writer is killed and whatever the disk says."""

import errno
import json
import os

import pytest
from msgspec import Struct

from rpent_box.errors import OutputError
from rpent_box.sim import lines
from rpent_box.sim.lines import LineWriter, read_lines, sync_files


class Word(Struct, frozen=True):
    text: str


WORDS = [Word("one"), Word("zwei ✓"), Word('three "\n"'), Word("4" * 60)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "words.jsonl"


def written(path, *words):
    with LineWriter(path) as writer:
        for word in words:
            writer.append(word)
    return path.read_bytes()


def read(path):
    return read_lines(path, Word, what="a word")


def test_lines_come_back_in_order_and_each_is_json(path):
    data = written(path, *WORDS)
    assert read(path) == WORDS
    assert [json.loads(line)["text"] for line in data.splitlines()] == [one.text for one in WORDS]


def test_whatever_byte_a_writer_is_killed_at_only_whole_lines_count_and_the_next_one_is_whole(path):
    data = written(path, *WORDS)
    ends = [index + 1 for index, byte in enumerate(data) if byte == ord("\n")]
    assert len(ends) == len(WORDS)
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        whole = sum(end <= length for end in ends)
        assert read(path) == WORDS[:whole]
        with LineWriter(path) as writer:
            assert writer.cut == length - (ends[whole - 1] if whole else 0)
            assert path.read_bytes() == data[: length - writer.cut]
            writer.append(Word("next"))
        assert read(path) == [*WORDS[:whole], Word("next")]


def test_a_torn_line_longer_than_what_is_read_at_once_is_cut_too(path, monkeypatch):
    monkeypatch.setattr(lines, "_TAIL", 7)
    data = written(path, Word("kept"))
    path.write_bytes(data + b"x" * 100)
    assert written(path, Word("next")) == data + b'{"text":"next"}\n'
    path.write_bytes(b"x" * 100)
    assert written(path) == b""


def test_zeros_that_a_crash_has_left_at_the_end_are_torn(path):
    data = written(path, Word("kept"))
    path.write_bytes(data + b"\0" * 4096)
    assert read(path) == [Word("kept")]
    assert written(path) == data


def test_a_line_in_the_middle_that_is_something_else_is_named(path):
    path.write_bytes(b'{"text":"one"}\n\0\0\0\n{"text":"two"}\n')
    with pytest.raises(OutputError, match=r"words.jsonl, line 2, is not a word"):
        read(path)
    path.write_bytes(b'{"text":"\xff"}\n')
    with pytest.raises(OutputError, match="line 1, is not a word"):
        read(path)


def test_a_file_that_cannot_be_read_or_opened_is_an_error(tmp_path):
    with pytest.raises(OutputError, match="cannot be read"):
        read(tmp_path / "none")
    with pytest.raises(OutputError, match="cannot be written"):
        LineWriter(tmp_path / "no" / "folder")
    writer = LineWriter(tmp_path / "file")
    writer.close()
    writer.close()
    with pytest.raises(OutputError, match="it is closed"):
        writer.append(Word("late"))


def breaking_write(monkeypatch, *, after, number):
    """Let the disk take `after` bytes of the next line and then say `number`, once."""
    genuine = os.write
    left = [after]

    def write(descriptor, data):
        if left[0] is None:
            return genuine(descriptor, data)
        if left[0] == 0:
            left[0] = None
            raise OSError(number, os.strerror(number))
        taken = genuine(descriptor, data[: left[0]])
        left[0] -= taken
        return taken

    monkeypatch.setattr(lines.os, "write", write)


@pytest.mark.parametrize("after", [0, 1, 9])
def test_a_line_that_the_disk_does_not_take_does_not_count_and_the_next_one_does(
    path, monkeypatch, after
):
    with LineWriter(path) as writer:
        writer.append(Word("one"))
        breaking_write(monkeypatch, after=after, number=errno.ENOSPC)
        with pytest.raises(OutputError, match=r"words.jsonl cannot be written: No space left"):
            writer.append(Word("two"))
        assert path.read_bytes() == b'{"text":"one"}\n'
        writer.append(Word("three"))
    assert read(path) == [Word("one"), Word("three")]


def test_a_line_that_the_disk_takes_in_parts_is_whole(path, monkeypatch):
    genuine = os.write
    monkeypatch.setattr(lines.os, "write", lambda descriptor, data: genuine(descriptor, data[:3]))
    written(path, *WORDS)
    assert read(path) == WORDS


def test_a_line_that_did_not_reach_the_disk_does_not_count(path, monkeypatch):
    with LineWriter(path) as writer:
        writer.append(Word("one"))
        answers = [OSError(errno.EIO, "Input/output error"), None, None]
        monkeypatch.setattr(lines.os, "fsync", lambda descriptor: raise_or_pass(answers.pop(0)))
        with pytest.raises(OutputError, match="Input/output error"):
            writer.append(Word("two"))
        monkeypatch.undo()
        writer.append(Word("three"))
    assert read(path) == [Word("one"), Word("three")]


def test_what_could_not_be_taken_back_at_once_is_before_the_next_line(path, monkeypatch):
    with LineWriter(path) as writer:
        writer.append(Word("one"))
        breaking_write(monkeypatch, after=5, number=errno.ENOSPC)
        refuse = OSError(errno.EIO, "Input/output error")
        monkeypatch.setattr(lines.os, "ftruncate", lambda descriptor, end: raise_or_pass(refuse))
        with pytest.raises(OutputError, match="No space left"):
            writer.append(Word("two"))
        # As long as it stands there, nothing may stand behind it.
        with pytest.raises(OutputError, match="Input/output error"):
            writer.append(Word("three"))
        assert read(path) == [Word("one")]
        monkeypatch.undo()
        writer.append(Word("four"))
    assert read(path) == [Word("one"), Word("four")]


def test_a_signal_in_mid_write_leaves_no_torn_line_in_the_middle(path, monkeypatch):
    genuine = os.write

    def interrupted(descriptor, data):
        genuine(descriptor, data[:4])
        raise KeyboardInterrupt

    with LineWriter(path) as writer:
        writer.append(Word("one"))
        monkeypatch.setattr(lines.os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.append(Word("two"))
        monkeypatch.undo()
        writer.append(Word("three"))
    assert read(path) == [Word("one"), Word("three")]


def test_a_new_file_is_in_its_folder_for_good_and_each_line_on_the_disk(path, monkeypatch):
    synced = []
    genuine = os.fsync

    def remember(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        genuine(descriptor)

    monkeypatch.setattr(lines.os, "fsync", remember)
    with LineWriter(path) as writer:
        assert synced == [str(path.parent)]
        writer.append(Word("one"))
        writer.append(Word("two"))
    assert synced == [str(path.parent), str(path), str(path)]
    synced.clear()
    LineWriter(path).close()
    assert synced == []


def test_the_files_of_a_folder_are_synced_and_no_link_is_followed(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("a")
    (tmp_path / "link").symlink_to("/proc/self/mem")
    (tmp_path / "folder").mkdir()
    synced = []
    monkeypatch.setattr(
        lines.os, "fsync", lambda it: synced.append(os.readlink(f"/proc/self/fd/{it}"))
    )
    sync_files(tmp_path)
    assert synced == [str(tmp_path / "a"), str(tmp_path)]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_sync_folders_is_good_enough(tmp_path, monkeypatch, number):
    refuse = OSError(number, "")
    monkeypatch.setattr(lines.os, "fsync", lambda descriptor: raise_or_pass(refuse))
    lines.sync_folder(tmp_path)


def raise_or_pass(error):
    if error is not None:
        raise error
