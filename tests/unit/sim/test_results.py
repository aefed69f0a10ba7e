# SPDX-License-Identifier: Apache-2.0
import os
import re

import msgspec
import pytest
from msgspec.structs import replace

from rpent_box.contracts.control_messages import EpisodePlayed, Restart
from rpent_box.errors import OutputError
from rpent_box.sim.results import (
    ResultsWriter,
    create_folder,
    create_run_folder,
    episode_folder,
    read_results,
    remove_partials,
    row_of,
    write_atomically,
)

PLAYED = EpisodePlayed(
    suite="toy_easy",
    task=0,
    init_state=3,
    episode=1,
    seed=7,
    instruction="go to the goal",
    success=True,
    steps=12,
    predictions=3,
    execute_steps=4,
    max_steps=40,
    wall_s=0.5,
    setup_s=0.1,
    stages_s={"simulate": 0.25},
    actions_sha256="a" * 64,
    first_frames_sha256="b" * 64,
)


def test_a_row_reads_back_as_it_was_written(tmp_path):
    rows = [row_of(PLAYED, run="run-1"), row_of(replace(PLAYED, episode=2), run="run-1")]
    with ResultsWriter(tmp_path) as writer:
        for row in rows:
            writer.append(row)
    assert read_results(tmp_path) == rows


def test_a_row_from_before_restarts_and_remarks_still_reads(tmp_path):
    row = row_of(PLAYED, run="run-1")
    fields = msgspec.to_builtins(row)
    assert (fields.pop("restarts"), fields.pop("remarks")) == ((), {})
    (tmp_path / "results.jsonl").write_bytes(msgspec.json.encode(fields) + b"\n")
    assert read_results(tmp_path) == [row]


def test_what_became_of_earlier_attempts_reads_back(tmp_path):
    restart = Restart(
        why="died",
        reason="killed by SIGSEGV",
        phase="acting",
        step=4,
        silent_s=0.2,
        at="2026-01-01T00:00:00+00:00",
        log="simulator.log",
    )
    row = row_of(replace(PLAYED, restarts=(restart,)), run="run-1")
    with ResultsWriter(tmp_path) as writer:
        writer.append(row)
    assert read_results(tmp_path) == [row]


def test_a_row_is_on_the_disk_before_the_writer_closes(tmp_path):
    with ResultsWriter(tmp_path) as writer:
        writer.append(row_of(PLAYED, run="run-1"))
        assert [row.init_state for row in read_results(tmp_path)] == [3]


def test_a_torn_last_line_is_dropped(tmp_path):
    with ResultsWriter(tmp_path) as writer:
        writer.append(row_of(PLAYED, run="run-1"))
        writer.append(row_of(replace(PLAYED, episode=2), run="run-1"))
    whole = writer.path.read_bytes()
    for cut in range(1, 40):
        writer.path.write_bytes(whole[:-cut])
        assert [row.episode for row in read_results(tmp_path)] == [1]


def test_a_broken_line_in_the_middle_is_an_error_that_names_it(tmp_path):
    with ResultsWriter(tmp_path) as writer:
        writer.append(row_of(PLAYED, run="run-1"))
    writer.path.write_bytes(b'{"suite": 3}\n' + writer.path.read_bytes())
    with pytest.raises(OutputError, match=r"results\.jsonl, line 1"):
        read_results(tmp_path)


def test_a_missing_results_file_is_an_error(tmp_path):
    with pytest.raises(OutputError, match=r"results\.jsonl cannot be read"):
        read_results(tmp_path)


def test_a_run_folder_is_named_by_time_and_what_is_played(tmp_path):
    folder = create_run_folder(
        str(tmp_path / "runs"), platform="toy", suite="toy_easy", task=1, backend="mini"
    )
    assert re.fullmatch(r"\d{8}T\d{6}Z-toy-toy_easy-1-mini", folder.name)
    assert folder.is_dir()


def test_two_runs_within_one_second_get_two_folders(tmp_path):
    names = {
        create_run_folder(str(tmp_path), platform="p", suite="s", task=0, backend="b").name
        for _ in range(5)
    }
    assert len(names) == 5


def test_a_file_in_place_of_the_output_folder_is_an_error_with_a_next_step(tmp_path):
    (tmp_path / "runs").write_text("not a folder")
    with pytest.raises(OutputError) as caught:
        create_run_folder(str(tmp_path / "runs"), platform="p", suite="s", task=0, backend="b")
    assert str(tmp_path / "runs") in caught.value.message
    assert "--output." in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_output_folder_is_an_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        create_run_folder(str(tmp_path / "runs"), platform="p", suite="s", task=0, backend="b")


def test_a_file_system_that_refuses_is_an_error():
    with pytest.raises(OutputError, match="cannot be written"):
        create_run_folder("/proc/runs", platform="p", suite="s", task=0, backend="b")


def test_an_atomic_write_leaves_no_partial_file(tmp_path):
    write_atomically(tmp_path / "run.json", b"old")
    write_atomically(tmp_path / "run.json", b"new")
    assert (tmp_path / "run.json").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_failed_atomic_write_keeps_the_old_file(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OutputError):
        write_atomically(tmp_path / "taken", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_episode_folders_sort_by_episode(tmp_path):
    names = [episode_folder(tmp_path, number).name for number in (0, 2, 10)]
    assert names == sorted(names) == ["episode-000", "episode-002", "episode-010"]


def test_a_new_file_is_in_its_folder_for_good_and_an_old_one_is_only_replaced(
    tmp_path, monkeypatch
):
    synced = []
    monkeypatch.setattr("rpent_box.sim.results.sync_folder", synced.append)
    write_atomically(tmp_path / "run.json", b"old")
    assert synced == [tmp_path]
    write_atomically(tmp_path / "run.json", b"new")
    assert synced == [tmp_path]


def test_a_folder_is_in_its_parent_for_good_and_says_when_and_what(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("rpent_box.sim.results.sync_folder", synced.append)
    folder = create_folder(str(tmp_path / "deep" / "runs"), "toy-suite-eval")
    assert re.fullmatch(r"\d{8}T\d{6}Z-toy-suite-eval", folder.name)
    assert synced == [tmp_path / "deep" / "runs"]
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        create_folder(str(tmp_path / "file"), "x")


def test_what_killed_writers_have_left_is_removed_and_nothing_else(tmp_path):
    for name in (".eval.json.1.partial", ".hidden", "a.partial"):
        (tmp_path / name).touch()
    remove_partials(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "a.partial"]


def test_a_row_after_a_torn_one_is_whole(tmp_path):
    with ResultsWriter(tmp_path) as writer:
        writer.append(row_of(PLAYED, run="run-1"))
        writer.append(row_of(replace(PLAYED, episode=2), run="run-1"))
    writer.path.write_bytes(writer.path.read_bytes()[:-7])
    with ResultsWriter(tmp_path) as writer:
        writer.append(row_of(replace(PLAYED, episode=3), run="run-1"))
    assert [row.episode for row in read_results(tmp_path)] == [1, 3]


def test_a_folder_whose_name_is_no_text_is_refused_before_it_is_made(tmp_path):
    with pytest.raises(OutputError, match="its name is not UTF-8"):
        create_folder(str(tmp_path / "a\udcff"), "toy-suite-eval")
    assert list(tmp_path.iterdir()) == []
