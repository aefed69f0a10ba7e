# SPDX-License-Identifier: Apache-2.0
"""What ZeroMQ does not check by itself: who is bound to a path, and whether anyone listens."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import zmq

from rpent_box.errors import PeerGone, ProtocolMismatch, SocketBusy, TransportError
from rpent_box.transport.forks import abandon_in_children
from rpent_box.transport.paths import ipc_path, is_ipc, tcp_address

HIGH_WATER_MARK = 64
"""Messages that may wait in one direction of one connection."""
MAX_MESSAGE_BYTES = 1 << 30
HEARTBEAT_MS = 2000
HEARTBEAT_TIMEOUT_MS = 8000
HANDSHAKE_MS = 5000
PROBE_S = 5.0
ZMTP_SIGNATURE = b"\xff"


class BindGuard:
    """Holds `flock(LOCK_EX)` beside a socket path: a second bind() on a path would succeed.

    A context manager; close() may be called twice. The lock file says who holds it, for the error
    message only: a pid means nothing in another container.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        abandon_in_children(self)

    @classmethod
    def take(cls, path: Path) -> BindGuard:
        """Lock `<path>.lock` and remove a stale socket at `path`, or raise `SocketBusy`."""
        lock = path.with_name(f"{path.name}.lock")
        while True:
            descriptor = _open_lock(lock)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = _holder(descriptor)
                os.close(descriptor)
                raise SocketBusy(
                    f"{path} is in use{holder}",
                    hint="Stop that program, or let this one choose another box.",
                ) from error
            if _is_still_at(lock, descriptor):
                break
            # Its last holder removed the file between our open and our lock: take the new one.
            os.close(descriptor)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"pid {os.getpid()}, since {time.strftime('%F %T')}".encode())
        path.unlink(missing_ok=True)
        return cls(path, descriptor)

    def abandon(self) -> None:
        """Let go of the lock's descriptor and remove nothing: for forked children."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def close(self) -> None:
        """Remove socket and lock file, then let go."""
        if self._descriptor is None:
            return
        self.path.unlink(missing_ok=True)
        self.path.with_name(f"{self.path.name}.lock").unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> BindGuard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def probe(endpoint: str, *, timeout_s: float = PROBE_S) -> None:
    """Raise unless a ZeroMQ socket accepts connections at `endpoint` right now.

    ZeroMQ itself would wait without a word for a socket that is missing, that this user may not
    write, or behind which something else listens.
    """
    with _raw_socket(endpoint) as raw:
        raw.settimeout(max(0.001, timeout_s))
        try:
            raw.connect(str(ipc_path(endpoint)) if is_ipc(endpoint) else tcp_address(endpoint))
            _expect_greeting(raw, endpoint, timeout_s)
        except FileNotFoundError as error:
            raise PeerGone(f"nothing is at {endpoint}: no such socket") from error
        except ConnectionRefusedError as error:
            raise PeerGone(f"nothing listens at {endpoint}: its program has ended") from error
        except PermissionError as error:
            raise TransportError(
                f"{endpoint} may not be written by uid {os.getuid()}",
                hint="A worker and its clients must run as one user.",
            ) from error
        except OSError as error:
            raise PeerGone(f"{endpoint} cannot be reached: {error}") from error


def _expect_greeting(raw: socket.socket, endpoint: str, timeout_s: float) -> None:
    # A ZeroMQ socket speaks first, with this byte (ZMTP 3.1, "signature").
    try:
        first = raw.recv(1)
    except TimeoutError as error:
        raise PeerGone(
            f"{endpoint} accepted, then said nothing for {timeout_s:.1f} s: its program is "
            "stopped, or it is not one of rpent-box"
        ) from error
    if not first:
        raise PeerGone(
            f"{endpoint} hung up at once",
            hint="A published container port accepts also when nothing listens behind it.",
        )
    if first != ZMTP_SIGNATURE:
        raise ProtocolMismatch(
            f"what listens at {endpoint} does not speak ZeroMQ",
            hint="Is the port right? A worker prints its endpoint when it starts.",
        )


def configure(socket_: zmq.Socket[Any], endpoint: str) -> None:
    """Set what both sides of every connection have in common."""
    socket_.linger = 0
    socket_.set_hwm(HIGH_WATER_MARK)
    socket_.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    socket_.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    if not is_ipc(endpoint):
        # A pulled cable says nothing. These run in ZeroMQ's own thread, whatever Python does.
        socket_.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket_.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
        socket_.setsockopt(zmq.HEARTBEAT_TTL, HEARTBEAT_TIMEOUT_MS)
        socket_.setsockopt(zmq.IPV6, 1 if "[" in endpoint else 0)


def _raw_socket(endpoint: str) -> socket.socket:
    if is_ipc(endpoint):
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    family = socket.AF_INET6 if "[" in endpoint else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


def _open_lock(lock: Path) -> int:
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise TransportError(
            f"cannot bind in {lock.parent}: {error.strerror}",
            hint="The directory must exist and be writable by this user.",
        ) from error


def _is_still_at(lock: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(lock), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()
    return f" by another program ({text})" if text else " by another program"
