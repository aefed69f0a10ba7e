# SPDX-License-Identifier: Apache-2.0
"""What a box is made of: shared memory for pixels, a socket for everything else."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zmq

from rpent_box.cli.checks.finding import Finding, fail, ok, warn
from rpent_box.contracts.messages import Payload
from rpent_box.contracts.observation import Image
from rpent_box.errors import RpentBoxError
from rpent_box.launch.roots import make_runtime_dir
from rpent_box.transport.paths import SHM, default_runtime_dir, ipc_endpoint
from rpent_box.transport.ring import Ring, RingView, slot_bytes_for
from rpent_box.transport.sockets import probe

MIB = 2**20
ENOUGH_SHM_BYTES = 256 * MIB
TOO_LITTLE_SHM_BYTES = 8 * MIB
"""One client's ring: a few slots of two 256x256 frames."""

FRAME = (256, 256, 3)
ROUNDS = 50
ANSWER_MS = 2000


def check_shm_size(shm: Path = SHM) -> Finding:
    """Room for pixels. Docker gives a container 64 MB unless told otherwise."""
    room = os.statvfs(shm)
    total, free = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    text = f"{free // MIB} MiB free of {total // MIB} MiB in {shm}"
    remedy = f"mount -o remount,size=1G {shm} (in Docker: --shm-size 1g); leftovers: rpent-box gc"
    if not os.access(shm, os.W_OK | os.X_OK):
        return fail("shared memory", f"{shm} may not be written by uid {os.getuid()}", remedy)
    if free < TOO_LITTLE_SHM_BYTES:
        return fail("shared memory", text, remedy)
    return (
        warn("shared memory", text, remedy)
        if free < ENOUGH_SHM_BYTES
        else ok("shared memory", text)
    )


def check_ring() -> Finding:
    """Write one frame through a ring of shared memory and read it back."""
    frame = np.arange(np.prod(FRAME), dtype=np.uint32).astype(np.uint8).reshape(FRAME)
    name = f"/rpent-box.{os.getpid() & 0xFFFFFFFF:08x}.doctor"
    try:
        with (
            Ring.create(name, slots=2, slot_bytes=slot_bytes_for([FRAME])) as ring,
            RingView.open(name) as view,
        ):
            payload = ring.write({"frame": frame}, wait_s=1.0, holder="doctor")
            seen = view.read(payload)["frame"]
            equal = bool(np.array_equal(seen, frame))
            del seen
            view.check(payload)
            _free(ring, payload)
            typical = _median_us(lambda: _pass_frame(ring, view, frame))
    except RpentBoxError as error:
        return fail("frames", error.message, error.hint)
    if not equal:
        return fail("frames", "a frame read from shared memory differs from the one written")
    return ok("frames", f"a 256x256 frame goes through shared memory in {typical:.0f} us")


def check_socket(runtime_dir: Path | None = None) -> Finding:
    """Send a message to and fro over a Unix socket where boxes have theirs."""
    parent = runtime_dir or default_runtime_dir()
    try:
        make_runtime_dir(parent)
        with tempfile.TemporaryDirectory(prefix="doctor-", dir=parent) as folder:
            endpoint = ipc_endpoint(Path(folder) / "check.sock")
            return ok("sockets", f"a message and its answer take {_ping_us(endpoint):.0f} us")
    except (RpentBoxError, OSError, zmq.ZMQError) as error:
        return fail(
            "sockets",
            f"no socket works in {parent}: {error}",
            "Choose another directory: RPENT_BOX_RUNTIME_DIR=/tmp/rb rpent-box doctor",
        )


def _pass_frame(ring: Ring, view: RingView, frame: Image) -> None:
    payload = ring.write({"frame": frame}, wait_s=1.0, holder="doctor")
    view.read(payload)
    view.check(payload)
    _free(ring, payload)


def _free(ring: Ring, payload: Payload) -> None:
    if payload.slot is not None:
        ring.free(payload.slot)


def _ping_us(endpoint: str) -> float:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context, context.socket(zmq.REP) as server, context.socket(zmq.REQ) as client:
        for socket in (server, client):
            socket.linger = 0
            socket.rcvtimeo = socket.sndtimeo = ANSWER_MS
        server.bind(endpoint)
        probe(endpoint)
        client.connect(endpoint)

        def ping() -> None:
            client.send(b"?")
            server.recv()
            server.send(b"!")
            client.recv()

        return _median_us(ping)


def _median_us(action: Callable[[], None]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter_ns()
        action()
        times.append(time.perf_counter_ns() - began)
    return sorted(times)[len(times) // 2] / 1000
