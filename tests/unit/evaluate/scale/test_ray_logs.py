# SPDX-License-Identifier: Apache-2.0
"""Logs and files of a cluster's machines, on their way to the evaluation's folder."""

import pytest

from rpent_box.errors import ProtocolMismatch
from rpent_box.evaluate.scale.ray_files import require_plain, take_files
from rpent_box.evaluate.scale.ray_logs import MOST_BYTES, LogReader, append_logs


def test_logs_arrive_as_they_were_written(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here" / "node-0"
    there.mkdir()
    reader = LogReader(there)
    for text in ("loading\n", "", "ready\n"):
        with (there / "worker.log").open("a") as file:
            file.write(text)
        (there / "notes.txt").write_text("not a log")
        append_logs(here, reader.news())
    assert (here / "worker.log").read_text() == "loading\nready\n"
    assert [path.name for path in here.iterdir()] == ["worker.log"]


def test_of_a_log_that_grows_too_fast_the_end_arrives(tmp_path):
    reader = LogReader(tmp_path)
    (tmp_path / "worker.log").write_bytes(b"a" * 100 + b"b" * MOST_BYTES)
    (news,) = reader.news().values()
    assert news == b"\n[100 bytes left out]\n" + b"b" * MOST_BYTES
    assert reader.news() == {}


def test_a_log_cannot_be_written_outside_of_its_folder(tmp_path):
    for name in ("../results.log", "/tmp/x.log", ".."):
        with pytest.raises(ProtocolMismatch, match="file named"):
            append_logs(tmp_path / "logs", {name: b"x"})
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden", "a\0b", "a\n", "a b", "x" * 101])
def test_names_that_are_more_than_a_files_are_refused(name):
    with pytest.raises(ProtocolMismatch, match="file named"):
        require_plain(name)


def test_an_episodes_files_are_taken_and_leave_nothing(tmp_path):
    folder = tmp_path / "episode-000"
    folder.mkdir()
    (folder / "actions.npy").write_bytes(b"numbers")
    (folder / "episode.mp4").write_bytes(b"film")
    assert take_files(folder) == {"actions.npy": b"numbers", "episode.mp4": b"film"}
    assert not folder.exists()
    assert take_files(folder) == {}
