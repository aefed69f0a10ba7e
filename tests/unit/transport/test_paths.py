# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from rpent_box.errors import TransportError, UsageError
from rpent_box.transport.paths import (
    BoxPaths,
    box_of_endpoint,
    box_of_segment,
    check_endpoint,
    ipc_endpoint,
    ipc_path,
    runtime_dir_of_endpoint,
    tcp_address,
)


def test_the_host_sees_a_box_under_the_runtime_directory_of_its_user() -> None:
    paths = BoxPaths.on_host("1a2b3c4d")
    room = Path(f"/tmp/rpent-box-{os.getuid()}/1a2b3c4d")
    assert paths.room == room
    assert paths.lease == room / "lease"
    assert paths.worker_endpoint == f"ipc://{room}/sockets/worker.sock"
    assert paths.sim_socket(3) == room / "sockets/sim-3.sock"
    assert paths.grants == Path(f"/dev/shm/rpent-box.d-{os.getuid()}/1a2b3c4d")
    assert paths.results == Path(f"/dev/shm/rpent-box.d-{os.getuid()}/1a2b3c4d.results")


def test_a_container_sees_the_same_box_at_fixed_places() -> None:
    paths = BoxPaths.in_container("1a2b3c4d")
    assert paths.worker_socket == Path("/run/rpent-box/sockets/worker.sock")
    assert paths.lease == Path("/run/rpent-box/lease")
    assert paths.grants == Path("/dev/shm")
    assert paths.results == Path("/run/rpent-box/results")


def test_both_views_give_a_segment_the_same_name() -> None:
    name = "/rpent-box.1a2b3c4d.sim-0"
    assert BoxPaths.on_host("1a2b3c4d").segment_name("sim-0") == name
    assert BoxPaths.in_container("1a2b3c4d").segment_name("sim-0") == name
    assert box_of_segment(name) == box_of_segment(name[1:]) == "1a2b3c4d"


@pytest.mark.parametrize("box", ["", "1A2B3C4D", "1a2b3c4", "1a2b3c4d5", "../../etc", "1a2b3c4d\n"])
def test_a_box_id_that_is_not_eight_hex_digits_is_refused(box: str) -> None:
    with pytest.raises(UsageError, match="8 hex digits"):
        BoxPaths.on_host(box)
    with pytest.raises(UsageError, match="8 hex digits"):
        BoxPaths.in_container(box)


@pytest.mark.parametrize("client", ["", "a/b", "..", "a.b", "x" * 65, "a\n"])
def test_a_client_that_cannot_name_a_segment_is_refused(client: str) -> None:
    with pytest.raises(TransportError, match="cannot name a segment"):
        BoxPaths.on_host("1a2b3c4d").segment_name(client)


@pytest.mark.parametrize(
    "name",
    [
        "/rpent-box.ffffffff.sim-0",
        "rpent-box.1a2b3c4d.sim-0",
        "/rpent-box.1a2b3c4d.",
        "/rpent-box.1a2b3c4d.a/../b",
        "/rpent-box.1a2b3c4d.sim-0\n",
        "/etc/passwd",
        "",
    ],
)
def test_a_box_owns_only_well_formed_names_of_its_own(name: str) -> None:
    assert not BoxPaths.on_host("1a2b3c4d").owns_segment(name)


def test_a_socket_path_that_the_kernel_would_cut_is_refused() -> None:
    fits = Path("/" + "a" * 106)
    assert ipc_endpoint(fits) == f"ipc://{fits}"
    with pytest.raises(TransportError, match="108 bytes; the kernel takes 107"):
        ipc_endpoint(Path("/" + "a" * 107))
    with pytest.raises(TransportError, match="107"):
        _ = BoxPaths.on_host("1a2b3c4d", runtime_dir=Path("/" + "é" * 45)).worker_endpoint


def test_a_box_is_found_in_its_own_endpoints_and_in_no_others() -> None:
    paths = BoxPaths.on_host("1a2b3c4d", runtime_dir=Path("/tmp/elsewhere"))
    assert box_of_endpoint(paths.worker_endpoint) == "1a2b3c4d"
    assert box_of_endpoint(paths.sim_endpoint(0)) == "1a2b3c4d"
    assert runtime_dir_of_endpoint(paths.worker_endpoint) == Path("/tmp/elsewhere")
    assert box_of_endpoint("ipc:///run/rpent-box/sockets/worker.sock") is None
    assert box_of_endpoint("ipc:///tmp/worker.sock") is None
    assert box_of_endpoint("tcp://127.0.0.1:5555") is None


def test_endpoints_are_taken_apart() -> None:
    assert ipc_path("ipc:///tmp/a.sock") == Path("/tmp/a.sock")
    assert tcp_address("tcp://127.0.0.1:0") == ("127.0.0.1", 0)
    assert tcp_address("tcp://[::1]:5555") == ("::1", 5555)


@pytest.mark.parametrize(
    "endpoint",
    ["", "http://localhost:80", "tcp://localhost", "tcp://host:99999", "ipc://relative.sock", "a"],
)
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(UsageError):
        check_endpoint(endpoint)
