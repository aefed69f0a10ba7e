# SPDX-License-Identifier: Apache-2.0
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_boxes import leftovers, tiny_program

from rpent_box.launch import segments
from rpent_box.launch.box import Box
from rpent_box.launch.held import HeldDirectory
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.sweep import SweepReport, sweep
from rpent_box.transport.paths import GRANTS_ROOT, BoxPaths
from rpent_box.transport.segment import Segment


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "rt"
    path.mkdir(mode=0o700)
    return path


def abandon(box: Box) -> None:
    """Let `box` die with its reaper, as when a machine loses both at once."""
    assert box._reaper is not None
    box._reaper.kill()
    box._reaper.wait()
    box._forget()


@pytest.fixture
def dead_box(home: Path) -> Box:
    box = Box.create(home)
    abandon(box)
    return box


def test_nothing_to_do_is_an_empty_report(home: Path) -> None:
    report = sweep(home)
    assert report == SweepReport(segments=report.segments)
    assert sweep(home / "missing").boxes == ()


def test_a_dead_box_is_removed_with_its_programs_and_segments(home: Path, tmp_path: Path) -> None:
    box = Box.create(home)
    running = ProcessLauncher().start(tiny_program(box.id, log=tmp_path / "log"), box)
    segment = Segment.create(box.paths.segment_name("client"), 4096, grants=box.paths.grants)
    abandon(box)
    report = sweep(home)
    assert report.boxes == (box.id,)
    assert report.programs == (f"process {running.identifier}",)
    assert report.segments == (f"rpent-box.{box.id}.client",)
    assert report.left == ()
    running.stop(grace_s=1)  # Only to take the zombie's status.
    assert leftovers(box.paths) == []
    segment.close()


def test_a_dry_run_names_the_same_and_touches_nothing(home: Path, tmp_path: Path) -> None:
    box = Box.create(home)
    running = ProcessLauncher().start(tiny_program(box.id, log=tmp_path / "log"), box)
    segment = Segment.create(box.paths.segment_name("client"), 4096, grants=box.paths.grants)
    abandon(box)
    report = sweep(home, dry_run=True)
    assert report.boxes == (box.id,)
    assert report.programs == (f"process {running.identifier}",)
    assert f"rpent-box.{box.id}.client" in report.segments
    assert running.exit_status() is None
    assert box.paths.room.is_dir()
    assert (box.paths.grants / f"rpent-box.{box.id}.client").exists()
    assert sweep(home).boxes == report.boxes
    running.stop(grace_s=1)
    segment.close()


def test_a_living_box_is_not_touched(home: Path, tmp_path: Path) -> None:
    with Box.create(home) as box:
        running = ProcessLauncher().start(tiny_program(box.id, log=tmp_path / "log"), box)
        report = sweep(home)
        assert report.living == (box.id,)
        assert report.boxes == ()
        assert report.programs == ()
        assert running.exit_status() is None
        assert box.paths.room.is_dir()
        assert box.paths.grants.is_dir()


def test_a_box_in_another_runtime_directory_is_not_touched(home: Path, tmp_path: Path) -> None:
    with Box.create(tmp_path / "elsewhere") as box:
        sweep(home)
        assert box.paths.grants.is_dir()
        assert box.paths.results.is_dir()


def test_a_dead_box_is_removed_at_the_next_start(home: Path, dead_box: Box) -> None:
    with Box.create(home):
        assert leftovers(dead_box.paths) == []


def test_other_things_in_the_runtime_directory_stay(home: Path) -> None:
    (home / "notes").mkdir()
    (home / "12345678.txt").write_text("mine")
    (home / "abcdef01").write_text("a file with a box's name")
    sweep(home)
    assert {path.name for path in home.iterdir()} == {"notes", "12345678.txt", "abcdef01"}


def test_a_room_that_was_never_finished_is_removed(home: Path) -> None:
    (home / "0000abcd").mkdir()
    assert sweep(home).boxes == ("0000abcd",)
    assert list(home.iterdir()) == []


def test_two_sweeps_at_once_remove_a_box_once(home: Path) -> None:
    boxes = [Box.create(home) for _ in range(3)]
    for box in boxes:
        abandon(box)
    reports: list[SweepReport] = []
    threads = [
        threading.Thread(target=lambda: reports.append(sweep(home)), daemon=True) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    swept = [box for report in reports for box in report.boxes]
    assert sorted(swept) == sorted(box.id for box in boxes)
    assert [report.left for report in reports] == [()] * 4


def test_boxes_made_while_others_sweep_are_whole(home: Path) -> None:
    stop = threading.Event()

    def sweep_on() -> None:
        while not stop.is_set():
            sweep(home)

    sweeper = threading.Thread(target=sweep_on, daemon=True)
    sweeper.start()
    try:
        for _ in range(10):
            with Box.create(home) as box:
                for path in (box.paths.lease, box.paths.sockets, box.paths.grants):
                    assert path.exists()
    finally:
        stop.set()
        sweeper.join(10)


SEGMENT_OWNER = """
import sys, time
from pathlib import Path
from rpent_box.transport.segment import Segment
segment = Segment.create(sys.argv[1], 4096, grants=Path(sys.argv[2]))
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def client(home: Path) -> Iterator[tuple[Box, subprocess.Popen[bytes], Path]]:
    """A living box, a client in another process, and that client's segment."""
    with Box.create(home) as box:
        name = box.paths.segment_name("other")
        process = subprocess.Popen(
            [sys.executable, "-c", SEGMENT_OWNER, name, str(box.paths.grants)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield box, process, Path("/dev/shm") / name.lstrip("/")
        process.kill()
        process.wait()


def test_a_killed_clients_segment_goes_while_its_box_lives(
    home: Path, client: tuple[Box, subprocess.Popen[bytes], Path]
) -> None:
    box, process, segment = client
    assert segment.name not in sweep(home).segments
    assert segment.exists()
    process.kill()
    process.wait()
    assert segment.name in sweep(home).segments
    assert not segment.exists()
    assert list(box.paths.grants.iterdir()) == []
    assert box.paths.room.is_dir()


def test_a_segment_that_is_being_made_is_left_alone(home: Path) -> None:
    name = f"rpent-box.{secrets.token_hex(4)}.new"
    path = Path("/dev/shm") / name
    path.touch(mode=0o600)
    try:
        assert name not in sweep(home).segments
        assert path.exists()
    finally:
        path.unlink()


def test_a_segment_that_never_got_a_size_is_removed_in_the_end(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"rpent-box.{secrets.token_hex(4)}.old"
    path = Path("/dev/shm") / name
    path.touch(mode=0o600)
    monkeypatch.setattr(segments, "UNSIZED_S", 0.0)
    time.sleep(0.01)
    assert name in sweep(home).segments
    assert not path.exists()


def test_other_shared_memory_is_left_alone(home: Path) -> None:
    path = Path("/dev/shm") / f"somebody-elses.{secrets.token_hex(4)}"
    path.write_bytes(b"x")
    try:
        sweep(home)
        assert path.exists()
    finally:
        path.unlink()


def test_grants_without_a_room_go_once_they_are_old(home: Path) -> None:
    with Box.create(home):
        lost = GRANTS_ROOT / secrets.token_hex(4)
        lost.mkdir()
        sweep(home)
        assert lost.is_dir()
        hour_ago = time.time() - 3600
        os.utime(lost, (hour_ago, hour_ago))
        sweep(home)
        assert not lost.exists()


def test_old_grants_in_use_by_a_client_without_a_box_stay(home: Path) -> None:
    with Box.create(home):
        box_id = secrets.token_hex(4)
        paths = BoxPaths.on_host(box_id, runtime_dir=home)
        paths.grants.mkdir()
        with Segment.create(paths.segment_name("bench"), 4096, grants=paths.grants):
            hour_ago = time.time() - 3600
            os.utime(paths.grants, (hour_ago, hour_ago))
            sweep(home)
            assert paths.grants.is_dir()
        os.utime(paths.grants, (hour_ago, hour_ago))
        sweep(home)
        assert not paths.grants.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's things")
def test_another_users_things_are_left_alone(home: Path) -> None:
    room = home / "0000abcd"
    room.mkdir()
    segment = Path("/dev/shm") / f"rpent-box.{secrets.token_hex(4)}.client"
    segment.write_bytes(b"x")
    for path in (room, segment):
        os.chown(path, 12345, 12345)
    try:
        assert sweep(home).boxes == ()
        assert room.is_dir()
        assert segment.exists()
    finally:
        segment.unlink()
        room.rmdir()


def test_a_program_that_cannot_be_ended_keeps_its_room_for_the_next_sweep(
    home: Path, dead_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("rpent_box.launch.cleaning.marked_processes", lambda _: [1])
        patch.setattr("rpent_box.launch.cleaning.end_processes", lambda pids, grace_s: list(pids))
        assert sweep(home).left == ("process 1",)
        assert dead_box.paths.room.is_dir()
    assert sweep(home).boxes == (dead_box.id,)
    assert leftovers(dead_box.paths) == []


def test_a_box_that_a_reaper_is_cleaning_counts_as_living(home: Path, dead_box: Box) -> None:
    room = HeldDirectory.take(dead_box.paths.room)
    assert room is not None
    with room:
        assert sweep(home).living == (dead_box.id,)
    assert sweep(home).boxes == (dead_box.id,)


def test_without_an_engine_lost_containers_are_no_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{home}/none.sock")
    assert sweep(home, containers=True).left == ()


def test_containers_of_a_dead_box_that_cannot_be_asked_about_are_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Box.create(home)
    box.expect_containers()
    abandon(box)
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{home}/none.sock")
        (left,) = sweep(home).left
        assert box.id in left
        assert box.paths.room.is_dir()
    (box.paths.room / "programs.json").write_text("{}")
    assert sweep(home).boxes == (box.id,)
