# SPDX-License-Identifier: Apache-2.0
"""Where a box keeps its things, as the host sees them and as a container sees them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct

from rpent_box.errors import TransportError, UsageError

SHM = Path("/dev/shm")
CONTAINER_ROOM = Path("/run/rpent-box")
GRANTS_ROOT = SHM / f"rpent-box.d-{os.getuid()}"
"""Per user, as the rooms are: whoever makes a folder that all users share owns its entries."""

SOCKET_PATH_LIMIT = 107
"""Bytes in `sockaddr_un.sun_path`, less the closing zero."""

_BOX_ID = re.compile(r"[0-9a-f]{8}")
_CLIENT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SEGMENT = re.compile(r"/rpent-box\.([0-9a-f]{8})\.([A-Za-z0-9_-]{1,64})")


class BoxPaths(Struct, frozen=True, kw_only=True):
    """The paths of one box. Names only: nothing here touches the file system."""

    box: str
    """8 hex digits."""
    room: Path
    lease: Path
    sockets: Path
    grants: Path
    """Where segments are linked to be seen by the worker; in a container, `/dev/shm` itself."""
    results: Path
    """Where the worker's own rings are."""

    @classmethod
    def on_host(cls, box: str, *, runtime_dir: Path | None = None) -> BoxPaths:
        """Return what the host sees. `runtime_dir` defaults to `/tmp/rpent-box-<uid>`."""
        room = (runtime_dir or default_runtime_dir()) / check_box_id(box)
        return cls(
            box=box,
            room=room,
            lease=room / "lease",
            sockets=room / "sockets",
            grants=GRANTS_ROOT / box,
            results=GRANTS_ROOT / f"{box}.results",
        )

    @classmethod
    def in_container(cls, box: str) -> BoxPaths:
        """Return what a worker or simulator container sees."""
        return cls(
            box=check_box_id(box),
            room=CONTAINER_ROOM,
            lease=CONTAINER_ROOM / "lease",
            sockets=CONTAINER_ROOM / "sockets",
            grants=SHM,
            results=CONTAINER_ROOM / "results",
        )

    @property
    def worker_socket(self) -> Path:
        return self.sockets / "worker.sock"

    @property
    def worker_endpoint(self) -> str:
        return ipc_endpoint(self.worker_socket)

    def sim_socket(self, number: int) -> Path:
        return self.sockets / f"sim-{number}.sock"

    def sim_endpoint(self, number: int) -> str:
        return ipc_endpoint(self.sim_socket(number))

    def segment_name(self, client: str) -> str:
        """Return the posix_ipc name of `client`'s ring: `/rpent-box.<box>.<client>`."""
        if not _CLIENT_ID.fullmatch(client):
            raise TransportError(
                f"{client!r} cannot name a segment; wanted 1 to 64 letters, digits, _ or -"
            )
        return f"/rpent-box.{self.box}.{client}"

    def owns_segment(self, name: str) -> bool:
        """Tell whether `name` is a well-formed segment name of this box."""
        match = _SEGMENT.fullmatch(name)
        return match is not None and match.group(1) == self.box


def default_runtime_dir() -> Path:
    return Path(f"/tmp/rpent-box-{os.getuid()}")


def check_box_id(box: str) -> str:
    """Return `box`, or raise `UsageError`: an id becomes part of paths."""
    if not _BOX_ID.fullmatch(box):
        raise UsageError(f"{box!r} is not a box id; wanted 8 hex digits such as 1a2b3c4d")
    return box


def box_of_segment(name: str) -> str | None:
    """Return the box that a segment's name belongs to, or None when it is not one of ours."""
    match = _SEGMENT.fullmatch(name if name.startswith("/") else f"/{name}")
    return match.group(1) if match else None


def ipc_endpoint(path: Path) -> str:
    """Return `ipc://<path>`, or raise `TransportError` when no socket can have that path."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_LIMIT:
        raise TransportError(
            f"the socket path {path} has {length} bytes; the kernel takes {SOCKET_PATH_LIMIT}",
            hint="Choose a shorter directory: RPENT_BOX_RUNTIME_DIR=/tmp/rb rpent-box …",
        )
    return f"ipc://{path}"


def is_ipc(endpoint: str) -> bool:
    return endpoint.startswith("ipc://")


def ipc_path(endpoint: str) -> Path:
    """Return the socket file of an `ipc://` endpoint."""
    if not is_ipc(endpoint):
        raise UsageError(f"{endpoint} is not an ipc:// endpoint")
    return Path(endpoint.removeprefix("ipc://"))


def tcp_address(endpoint: str) -> tuple[str, int]:
    """Return host and port of a `tcp://` endpoint."""
    match = re.fullmatch(r"tcp://(\[[0-9A-Fa-f:.%\w]+\]|[^:/\s*]+):(\d{1,5})", endpoint)
    if match is None or int(match.group(2)) > 65535:
        raise UsageError(
            f"{endpoint!r} is not an endpoint; wanted ipc:///path/to/worker.sock or tcp://host:port"
        )
    return match.group(1).strip("[]"), int(match.group(2))


def check_endpoint(endpoint: str) -> str:
    """Return `endpoint`, or raise `UsageError` unless it is a usable ipc or tcp address."""
    if is_ipc(endpoint):
        path = ipc_path(endpoint)
        if not path.is_absolute():
            raise UsageError(f"{endpoint} is relative; wanted three slashes: ipc:///path/to.sock")
        ipc_endpoint(path)
    else:
        tcp_address(endpoint)
    return endpoint


def box_of_endpoint(endpoint: str) -> str | None:
    """Return the box whose socket `endpoint` is, e.g. `1a2b3c4d`; None for any other place.

    Reads `ipc://<runtime dir>/<box>/sockets/<name>.sock`.
    """
    if not is_ipc(endpoint):
        return None
    sockets = ipc_path(endpoint).parent
    box = sockets.parent.name
    return box if sockets.name == "sockets" and _BOX_ID.fullmatch(box) else None


def runtime_dir_of_endpoint(endpoint: str) -> Path | None:
    """Return the runtime directory that a box's endpoint lies in, or None."""
    return ipc_path(endpoint).parents[2] if box_of_endpoint(endpoint) else None
