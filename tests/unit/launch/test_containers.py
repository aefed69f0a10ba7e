# SPDX-License-Identifier: Apache-2.0
"""How containers are ended, asked of a stand-in for the engine that remembers what it was told."""

import json
import os
import socketserver
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from rpent_box.errors import EngineMissing, LaunchError
from rpent_box.launch import containers
from rpent_box.launch.containers import (
    containers_of,
    end_containers,
    lost_containers,
    remove_container,
    this_machine,
)

STUBBORN_S = 5.0
"""How long a stubborn container would keep an engine waiting."""


class StandIn(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Knows containers by id; a stubborn one does not end at a SIGTERM."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.known: dict[str, dict[str, object]] = {}
        self.stubborn: set[str] = set()
        self.busy: dict[str, float] = {}
        """Until when someone else is removing which."""
        self.refuses = ""
        self.told: list[str] = []

    def handle_error(self, *_: object) -> None:
        """Whoever asked for a stubborn one has hung up meanwhile."""

    def add(self, identifier: str, box: str, *, state: str = "running", **labels: str) -> None:
        self.known[identifier] = {
            "Id": identifier,
            "Names": [f"/rpent-box-{box}-worker"],
            "State": state,
            "Image": "more than we read",
            "Labels": {"rpent-box.box": box, "rpent-box.owner": str(os.getuid()), **labels},
        }


class Handler(BaseHTTPRequestHandler):
    server: StandIn

    def address_string(self) -> str:
        return "here"

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path != "/containers/json":
            identifier = url.path.split("/")[2]
            if time.monotonic() >= self.server.busy.get(identifier, 0.0):
                self.server.known.pop(identifier, None)
            self._answer(200 if identifier in self.server.known else 404)
            return
        asked = parse_qs(url.query)
        assert asked["all"] == ["1"]
        ((name, wanted),) = [one.split("=") for one in json.loads(asked["filters"][0])["label"]]
        found = [
            one
            for one in self.server.known.values()
            if isinstance(one["Labels"], dict) and one["Labels"].get(name) == wanted
        ]
        self._answer(200, json.dumps(found))

    def do_POST(self) -> None:
        _, _, identifier, verb = urlsplit(self.path).path.split("/")
        self.server.told.append(f"{verb} {identifier}")
        if identifier not in self.server.known:
            self._answer(404)
        elif verb == "wait" and identifier in self.server.stubborn:
            time.sleep(STUBBORN_S)
        else:
            self._answer(204 if verb == "kill" else 200, "{}" if verb == "wait" else "")

    def do_DELETE(self) -> None:
        identifier = urlsplit(self.path).path.split("/")[2]
        self.server.told.append(f"remove {identifier}")
        if self.server.refuses:
            self._answer(500, json.dumps({"message": self.server.refuses}))
        elif identifier in self.server.busy:
            self._answer(409, '{"message": "removal is already in progress"}')
        else:
            self._answer(204 if self.server.known.pop(identifier, None) else 404)

    def _answer(self, status: int, body: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with StandIn(path) as one:
        threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()
        yield one
        one.shutdown()


def test_a_boxs_containers_are_told_waited_for_and_removed(engine: StandIn) -> None:
    engine.add("aaa", "0badc0de")
    engine.add("bbb", "11111111")
    found = containers_of("0badc0de")
    assert end_containers(found) == ["container rpent-box-0badc0de-worker"]
    assert engine.told == ["kill aaa", "wait aaa", "remove aaa"]
    assert list(engine.known) == ["bbb"]


def test_stubborn_containers_are_removed_side_by_side_and_soon(
    engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "STOP_S", 0.3)
    for number in range(6):
        engine.add(f"s{number}", "0badc0de")
        engine.stubborn.add(f"s{number}")
    began = time.monotonic()
    assert len(end_containers(containers_of("0badc0de"))) == 6
    assert time.monotonic() - began < STUBBORN_S / 2
    assert engine.known == {}


def test_one_that_has_gone_meanwhile_is_no_failure(engine: StandIn) -> None:
    engine.add("aaa", "0badc0de")
    found = containers_of("0badc0de")
    engine.known.clear()
    assert len(end_containers(found)) == 1


def test_one_that_someone_else_removes_is_waited_for(engine: StandIn) -> None:
    engine.add("aaa", "0badc0de")
    engine.busy["aaa"] = time.monotonic() + 0.4
    began = time.monotonic()
    remove_container("aaa")
    assert time.monotonic() - began >= 0.3
    assert engine.known == {}


def test_one_that_nobody_gets_removed_is_an_error(
    engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "GONE_TIMEOUT_S", 0.2)
    engine.add("aaa", "0badc0de")
    engine.busy["aaa"] = time.monotonic() + 60
    with pytest.raises(LaunchError, match="could not be removed") as caught:
        remove_container("aaa")
    assert "docker rm --force aaa" in caught.value.hint


def test_what_the_engine_says_when_it_refuses_is_said(engine: StandIn) -> None:
    engine.add("aaa", "0badc0de")
    engine.refuses = "the disk is on fire"
    with pytest.raises(LaunchError, match="refused DELETE /containers/aaa: .*on fire"):
        end_containers(containers_of("0badc0de"))


def test_only_what_is_surely_lost_is_called_lost(engine: StandIn) -> None:
    boot = this_machine().split("/")[0]
    engine.add("here", "00000001", **{"rpent-box.machine": this_machine()})
    engine.add("elsewhere", "00000002", **{"rpent-box.machine": f"{boot}/999999"})
    engine.add("old", "00000003", state="exited", **{"rpent-box.machine": "another-boot/1"})
    engine.add("other", "00000004", **{"rpent-box.machine": "another-boot/1"})
    assert {one.id for one in lost_containers()} == {"here", "old"}


def test_an_engine_that_hangs_up_is_an_engine_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class HangUp(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1)

    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with socketserver.ThreadingUnixStreamServer(str(path), HangUp) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        with pytest.raises(EngineMissing, match="did not answer GET /containers/json"):
            containers_of("0badc0de")
        server.shutdown()
