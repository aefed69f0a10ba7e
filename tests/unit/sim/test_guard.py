# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import pytest

from rpent_box.sim import guard
from rpent_box.sim.guard import remove_segments, remove_socket
from rpent_box.transport.paths import BoxPaths


@pytest.fixture
def paths(tmp_path, monkeypatch):
    """A box whose shared memory is a plain folder."""
    shared = tmp_path / "shm"
    grants = tmp_path / "grants"
    shared.mkdir()
    grants.mkdir()
    monkeypatch.setattr(guard, "SHM", shared)
    return BoxPaths(
        box="1a2b3c4d",
        room=tmp_path,
        lease=tmp_path / "lease",
        sockets=tmp_path / "sockets",
        grants=grants,
        results=tmp_path / "results",
    )


def test_only_this_clients_rings_and_grants_are_removed(paths, tmp_path):
    shared = tmp_path / "shm"
    for folder in (shared, paths.grants):
        (folder / "rpent-box.1a2b3c4d.sim-aa-00112233").touch()
        (folder / "rpent-box.1a2b3c4d.sim-bb-00112233").touch()
        (folder / "rpent-box.ffffffff.sim-aa-00112233").touch()
    remove_segments(paths, "sim-aa")
    for folder in (shared, paths.grants):
        assert sorted(os.listdir(folder)) == [
            "rpent-box.1a2b3c4d.sim-bb-00112233",
            "rpent-box.ffffffff.sim-aa-00112233",
        ]
    remove_segments(paths, "sim-aa")


def test_a_socket_goes_with_its_lock_and_a_tcp_port_leaves_nothing(tmp_path):
    socket, lock = tmp_path / "sim.sock", tmp_path / "sim.sock.lock"
    socket.touch()
    lock.touch()
    remove_socket(f"ipc://{socket}")
    assert os.listdir(tmp_path) == []
    remove_socket(f"ipc://{socket}")
    remove_socket("tcp://127.0.0.1:5555")


def test_a_watch_that_breaks_ends_the_process_that_it_watched_over():
    program = (
        "import pathlib, time\n"
        "from rpent_box.sim.guard import end_with_owner\n"
        "end_with_owner(pathlib.Path('/tmp') / ('x' * 300), last_act=lambda: None)\n"
        "time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == guard.ABANDONED
    assert "File name too long" in done.stderr
