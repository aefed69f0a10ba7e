# SPDX-License-Identifier: Apache-2.0
"""Who takes part: a line, with or without tuned malloc, its server in a process or a container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]

# Keep large blocks in the heap instead of mapping and unmapping them for every message.
TUNED_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}


@dataclass(frozen=True)
class Entrant:
    """One row of the table."""

    label: str
    line: str
    tuned: bool = False
    raw_frames: bool = False
    in_container: bool = False


MEMCPY = Entrant("memcpy (floor)", "memcpy")
BARE = Entrant("memcpy + bare ZeroMQ (floor)", "bare_zeromq")
OURS = Entrant("rpent-box, shared memory", "ours")
OURS_IN_CONTAINER = Entrant("rpent-box, to a container", "ours", in_container=True)
OURS_TCP = Entrant("rpent-box, tcp raw frames", "ours", raw_frames=True)
OURS_TCP_TUNED = Entrant("rpent-box, tcp, tuned", "ours", raw_frames=True, tuned=True)
WEBSOCKET = Entrant("websocket + msgpack", "websocket_msgpack")
WEBSOCKET_TUNED = Entrant("websocket + msgpack, tuned", "websocket_msgpack", tuned=True)
HTTP = Entrant("HTTP + base64 JSON, per call", "http_json_per_call")
HTTP_KEPT = Entrant("HTTP + base64 JSON, kept", "http_json")
HTTP_KEPT_TUNED = Entrant("HTTP + base64, kept, tuned", "http_json", tuned=True)
GRPC = Entrant("gRPC bytes", "grpc_bytes")
GRPC_TUNED = Entrant("gRPC bytes, tuned", "grpc_bytes", tuned=True)
PICKLE = Entrant("pickle over TCP", "pickle_tcp")
PICKLE_TUNED = Entrant("pickle over TCP, tuned", "pickle_tcp", tuned=True)

IN_PROCESSES = (
    MEMCPY,
    BARE,
    OURS,
    OURS_TCP,
    OURS_TCP_TUNED,
    WEBSOCKET,
    WEBSOCKET_TUNED,
    HTTP,
    HTTP_KEPT,
    HTTP_KEPT_TUNED,
    GRPC,
    GRPC_TUNED,
    PICKLE,
    PICKLE_TUNED,
)


class Pair:
    """A running client and server of one entrant. A context manager."""

    def __init__(self, entrant: Entrant, address: str, life: ExitStack) -> None:
        self.entrant = entrant
        self._life = life
        command = [sys.executable, "-m", "benchmarks.transport.client", entrant.line, address]
        self._client = start(command, environment(entrant))
        life.callback(stop, self._client)

    def measure(self, case: int, calls: int, pace_s: float) -> list[float]:
        """Return the seconds of `calls` round trips."""
        order = json.dumps({"case": case, "calls": calls, "pace_s": pace_s})
        if self._client.stdin is None or self._client.stdout is None:
            raise RuntimeError("the client has no pipes")
        self._client.stdin.write(order + "\n")
        self._client.stdin.flush()
        answer = self._client.stdout.readline()
        if not answer:
            raise RuntimeError(f"the client of {self.entrant.label} ended; see its error above")
        seconds: list[float] = json.loads(answer)
        return seconds

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._life.close()


def start_pair(entrant: Entrant, endpoint: str) -> Pair:
    """Start server and client as processes. `endpoint` is where the shared-memory line binds."""
    with ExitStack() as undo:
        address = "nowhere"
        if entrant.line != "memcpy":
            where = endpoint if entrant.line == "ours" else "127.0.0.1"
            if entrant.raw_frames:
                where = "tcp://127.0.0.1:0"
            command = [sys.executable, "-m", "benchmarks.transport.server", entrant.line, where]
            server = start(command, environment(entrant))
            undo.callback(stop, server)
            address = first_line(server)
        return Pair(entrant, address, undo.pop_all())


def environment(entrant: Entrant) -> dict[str, str]:
    """Return the environment of both processes, one thread each for numpy's sake."""
    tuned: Mapping[str, str] = TUNED_MALLOC if entrant.tuned else {}
    return {**os.environ, **tuned, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def start(command: list[str], environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a process with pipes for its input and output."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env=environ, cwd=ROOT, bufsize=1
    )


def first_line(process: subprocess.Popen[str]) -> str:
    """Return what a server prints once it is bound."""
    line = process.stdout.readline().strip() if process.stdout else ""
    if not line:
        raise RuntimeError("a server ended before it was bound; see its error above")
    return line


def stop(process: subprocess.Popen[str]) -> None:
    """End a process that we started: closed input first, so that it may clean up."""
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=5.0)
    if process.stdout:
        process.stdout.close()
