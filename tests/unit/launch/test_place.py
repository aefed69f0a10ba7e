# SPDX-License-Identifier: Apache-2.0
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpent_box.errors import LaunchError, UsageError
from rpent_box.launch.box import Box
from rpent_box.launch.program import Mount


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Box]:
    with Box.create(tmp_path / "own") as box:
        yield box


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Box]:
    """A box of another owner, in which something listens."""
    with Box.create(tmp_path / "serving") as box, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(box.paths.worker_socket))
        listener.listen()
        yield box


def by_target(mounts: tuple[Mount, ...]) -> dict[str, Mount]:
    return {mount.target: mount for mount in mounts}


def test_an_own_worker_is_seen_from_both_sides(own: Box) -> None:
    place = own.worker_place
    assert place.endpoint_for("host") == own.paths.worker_endpoint
    assert place.endpoint_for("container") == "ipc:///run/rpent-box/sockets/worker.sock"
    assert place.box == own.id
    assert not place.needs_network
    mounts = by_target(place.simulator_mounts(own.paths))
    assert mounts["/dev/shm"] == Mount(str(own.paths.grants), "/dev/shm", read_only=False)
    results = mounts["/run/rpent-box/results"]
    assert (results.source, results.read_only) == (str(own.paths.results), True)


def test_a_borrowed_workers_sockets_and_grants_are_used(own: Box, serving: Box) -> None:
    place = Box.join(serving.paths.worker_endpoint)
    assert place.borrowed
    assert place.box == serving.id
    assert place.paths == serving.paths
    assert place.endpoint_for("host") == serving.paths.worker_endpoint
    assert place.endpoint_for("container") == "ipc:///run/rpent-box/worker/worker.sock"
    mounts = by_target(place.simulator_mounts(own.paths))
    assert mounts["/dev/shm"].source == str(serving.paths.grants)
    assert mounts["/run/rpent-box/worker"].source == str(serving.paths.sockets)
    assert mounts["/run/rpent-box/results"].source == str(serving.paths.results)


def test_joining_and_leaving_does_not_end_the_joined_box(own: Box, serving: Box) -> None:
    Box.join(serving.paths.worker_endpoint)
    own.close()
    assert serving.paths.worker_socket.exists()
    assert serving.paths.grants.is_dir()


def test_a_socket_outside_of_any_box_is_used_without_shared_memory(
    own: Box, tmp_path: Path
) -> None:
    path = tmp_path / "mine.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        place = Box.join(f"ipc://{path}")
    assert place.paths is None
    assert place.box is None
    assert place.endpoint_for("container") == "ipc:///run/rpent-box/worker/mine.sock"
    assert by_target(place.simulator_mounts(own.paths))["/dev/shm"].source == str(own.paths.grants)


def test_a_tcp_endpoint_needs_the_network_and_no_sockets(own: Box) -> None:
    place = Box.join("tcp://10.0.0.5:5555")
    assert place.needs_network
    assert place.box is None
    assert place.endpoint_for("container") == "tcp://10.0.0.5:5555"
    assert set(by_target(place.simulator_mounts(own.paths))) == {
        "/dev/shm",
        "/run/rpent-box/results",
    }


@pytest.mark.parametrize(
    "endpoint",
    ["worker.sock", "ipc://relative.sock", "http://host:1", "tcp://host", "tcp://h:99999"],
)
def test_what_is_no_endpoint_is_wrong_usage(endpoint: str) -> None:
    with pytest.raises(UsageError):
        Box.join(endpoint)


def test_a_worker_that_is_not_there_is_an_error_with_the_next_command(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="does not exist") as caught:
        Box.join(f"ipc://{tmp_path}/none.sock")
    assert "rpent-box serve" in caught.value.hint


def test_a_worker_that_has_ended_is_told_from_one_that_never_was(tmp_path: Path) -> None:
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    with pytest.raises(LaunchError, match="its worker has ended"):
        Box.join(f"ipc://{path}")
