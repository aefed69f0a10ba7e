# SPDX-License-Identifier: Apache-2.0
import socket
from pathlib import Path
from typing import Literal

import pytest
from msgspec import Struct
from rpent_box_toy.backend import BACKEND

from rpent_box.errors import BadOption, SocketBusy
from rpent_box.launch.box import Box
from rpent_box.launch.program import Program, Running
from rpent_box.launch.standalone import standalone_worker
from rpent_box.worker.needs import Needs


class Untouched(Struct, frozen=True):
    """A launcher that must not be asked for anything."""

    name: Literal["process"] = "process"
    view: Literal["host"] = "host"

    def check(self, program: Program) -> None:
        raise AssertionError("a program was checked")

    def sees_gpus(self) -> bool:
        raise AssertionError("a GPU was looked for")

    def start(self, program: Program, box: Box) -> Running:
        raise AssertionError("a program was started")


def serve_at(listen: str, tmp_path: Path) -> None:
    with standalone_worker(
        BACKEND,
        Untouched(),
        needs=Needs(device="cpu"),
        checkpoint=None,
        platform="toy",
        options=(),
        python="python3",
        root=None,
        cuda_device=None,
        threads=1,
        log=str(tmp_path / "worker.log"),
        image="an/image",
        start_timeout_s=5.0,
        say=lambda _: None,
        listen=listen,
        runtime_dir=tmp_path / "rt",
    ):
        pass


def test_an_address_where_another_listens_is_refused_before_anything_is_made(
    tmp_path: Path,
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SocketBusy, match=f"cannot listen at .*:{port}: .*in use") as caught:
            serve_at(f"tcp://127.0.0.1:{port}", tmp_path)
    assert "port 0" in caught.value.hint
    assert not (tmp_path / "rt").exists()


def test_an_address_that_is_not_this_machines_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(SocketBusy, match="cannot listen"):
        serve_at("tcp://192.0.2.1:0", tmp_path)


def test_a_free_address_is_no_reason_to_refuse(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="started"):
        serve_at("tcp://127.0.0.1:0", tmp_path)


def test_a_unix_socket_is_not_for_the_caller_to_choose(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="of its own choice") as caught:
        serve_at("ipc:///tmp/mine.sock", tmp_path)
    assert "tcp://" in caught.value.hint
