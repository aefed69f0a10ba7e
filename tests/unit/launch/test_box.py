# SPDX-License-Identifier: Apache-2.0
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_boxes import leftovers, tiny_program, wait_for, wait_for_reaper

from rpent_box.errors import LaunchError, TransportError
from rpent_box.launch.box import Box
from rpent_box.launch.held import HeldDirectory
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.roots import make_grants_root
from rpent_box.transport.lease import owner_is_gone
from rpent_box.transport.paths import GRANTS_ROOT
from rpent_box.transport.segment import Segment

MAKE_AND_CLOSE = """
import sys
from rpent_box.launch.box import Box

for _ in range(int(sys.argv[2])):
    Box.create(sys.argv[1]).close()
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box.create(tmp_path) as one:
        yield one


def test_a_box_has_a_room_sockets_grants_results_and_a_held_lease(box: Box) -> None:
    paths = box.paths
    for directory in (paths.room, paths.sockets, paths.grants, paths.results):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert not owner_is_gone(paths.lease)
    assert len(box.id) == 8
    assert box.worker_place.endpoint == f"ipc://{paths.room}/sockets/worker.sock"


def test_closing_leaves_nothing_behind_and_may_be_done_twice(tmp_path: Path) -> None:
    box = Box.create(tmp_path)
    wait_for_reaper(box.id)
    box.close()
    assert leftovers(box.paths) == []
    box.close()
    assert list(tmp_path.iterdir()) == []


def test_closing_does_not_wait_for_the_reapers_deadline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = Box.create(tmp_path)
    wait_for_reaper(box.id)
    box.close()
    assert caplog.records == []
    assert box._reaper is not None
    assert box._reaper.returncode is not None


def test_two_boxes_share_nothing(tmp_path: Path) -> None:
    with Box.create(tmp_path) as one, Box.create(tmp_path) as other:
        assert one.id != other.id
        one.close()
        assert other.paths.room.is_dir()
        assert not owner_is_gone(other.paths.lease)


def test_segments_of_a_killed_client_go_with_the_box(tmp_path: Path) -> None:
    with Box.create(tmp_path) as box:
        name = box.paths.segment_name("client")
        segment = Segment.create(name, 4096, grants=box.paths.grants)
        shared = Path("/dev/shm") / name.lstrip("/")
        assert shared.exists()
    assert not shared.exists()
    segment.close()


def test_what_is_started_is_on_the_disk_once(box: Box, tmp_path: Path) -> None:
    running = ProcessLauncher().start(tiny_program(box.id, log=tmp_path / "log"), box)
    box.record(running)
    records = json.loads((box.paths.room / "programs.json").read_bytes())
    assert [one["identifier"] for one in records["programs"]] == [running.identifier]
    assert records["engine"] is False
    box.expect_containers()
    records = json.loads((box.paths.room / "programs.json").read_bytes())
    assert records["engine"] is True
    assert len(records["programs"]) == 1


def test_closing_stops_programs_latest_first(tmp_path: Path) -> None:
    stopped = []
    with Box.create(tmp_path) as box:
        for name in ("worker", "simulator"):
            program = tiny_program(box.id, log=tmp_path / f"{name}.log", name=name)
            running = ProcessLauncher().start(program, box)
            stop = running.stop

            def noted(*, grace_s: float, name: str = name, stop: object = stop) -> None:
                stopped.append(name)
                assert callable(stop)
                stop(grace_s=grace_s)

            running.stop = noted  # type: ignore[method-assign]
    assert stopped == ["simulator", "worker"]
    assert leftovers(box.paths) == []


def test_an_error_inside_the_block_is_not_hidden_by_cleaning(tmp_path: Path) -> None:
    def run() -> None:
        with Box.create(tmp_path) as box:
            boxes.append(box)
            ProcessLauncher().start(tiny_program(box.id, log=tmp_path / "log"), box)
            raise ZeroDivisionError

    boxes: list[Box] = []
    with pytest.raises(ZeroDivisionError):
        run()
    assert leftovers(boxes[0].paths) == []


def test_a_forked_child_neither_keeps_nor_ends_its_parents_box(tmp_path: Path) -> None:
    with Box.create(tmp_path) as box:
        child = os.fork()
        if child == 0:
            box.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert box.paths.room.is_dir()
        assert not owner_is_gone(box.paths.lease)

        child = os.fork()
        if child == 0:
            time.sleep(20)
            os._exit(0)
        box._lease.close()
        try:
            wait_for(lambda: owner_is_gone(box.paths.lease), within_s=5, what="letting go")
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
    # The reaper took the lease for let go of, and may have been quicker than the block's end.
    wait_for(lambda: not leftovers(box.paths), within_s=10, what="an empty machine")


def test_a_runtime_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(LaunchError, match="not safe"):
        Box.create(tmp_path)


def test_a_runtime_directory_too_long_for_sockets_is_refused_before_anything_is_made(
    tmp_path: Path,
) -> None:
    home = tmp_path / ("x" * 100)
    with pytest.raises(TransportError, match="socket path") as caught:
        Box.create(home)
    assert "RPENT_BOX_RUNTIME_DIR" in caught.value.hint
    assert not home.exists()


def test_a_link_instead_of_a_runtime_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(LaunchError, match="not safe"):
        Box.create(tmp_path / "link")


def test_shared_memory_that_another_user_could_rename_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "rpent-box.d-1000"
    make_grants_root(root)
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    root.chmod(0o1777)
    with pytest.raises(LaunchError, match="not safe"):
        make_grants_root(root)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(LaunchError, match="not safe"):
        make_grants_root(link)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_shared_memory_of_another_user_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "rpent-box.d-0"
    root.mkdir(mode=0o700)
    os.chown(root, 12345, 12345)
    with pytest.raises(LaunchError, match="not safe"):
        make_grants_root(root)


def test_every_users_shared_memory_is_in_a_folder_of_their_own(box: Box) -> None:
    assert box.paths.grants.parent == GRANTS_ROOT
    assert GRANTS_ROOT.name.endswith(f"-{os.getuid()}")
    assert stat.S_IMODE(GRANTS_ROOT.stat().st_mode) == 0o700


def test_a_runtime_directory_that_cannot_be_made_is_one_screen_of_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match="cannot be made") as caught:
        Box.create(tmp_path / "file" / "below")
    assert "RPENT_BOX_RUNTIME_DIR" in caught.value.hint


def test_a_box_that_cannot_be_finished_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("rpent_box.launch.box._start_reaper", refuse)
    made = []
    create = HeldDirectory.create

    def noted(path: Path) -> HeldDirectory | None:
        made.append(path)
        return create(path)

    monkeypatch.setattr(HeldDirectory, "create", noted)
    with pytest.raises(LaunchError, match="No space left"):
        Box.create(tmp_path)
    assert len(made) == 3
    assert not [path for path in made if path.exists()]
    assert list(tmp_path.iterdir()) == []


def test_the_last_box_takes_the_folder_of_shared_memory_along(tmp_path: Path) -> None:
    Box.create(tmp_path).close()
    assert not GRANTS_ROOT.exists() or list(GRANTS_ROOT.iterdir()) != []


def test_boxes_that_come_and_go_at_once_do_not_trip_over_each_other(tmp_path: Path) -> None:
    makers = [
        subprocess.Popen([sys.executable, "-c", MAKE_AND_CLOSE, str(tmp_path), "15"])
        for _ in range(4)
    ]
    assert [maker.wait(timeout=120) for maker in makers] == [0, 0, 0, 0]
    assert list(tmp_path.iterdir()) == []
