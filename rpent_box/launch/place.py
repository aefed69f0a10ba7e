# SPDX-License-Identifier: Apache-2.0
"""Where a worker listens, and how a simulator gets there, started whichever way."""

from __future__ import annotations

import socket
from typing import Literal

from msgspec import Struct

from rpent_box.errors import LaunchError
from rpent_box.launch.program import Mount
from rpent_box.transport.paths import (
    CONTAINER_ROOM,
    SHM,
    BoxPaths,
    box_of_endpoint,
    check_endpoint,
    ipc_endpoint,
    ipc_path,
    is_ipc,
    runtime_dir_of_endpoint,
)

CONTAINER_WORKER_SOCKETS = CONTAINER_ROOM / "worker"
"""A borrowed worker's sockets, as a simulator's container sees them."""

_CONNECT_TIMEOUT_S = 5.0


class WorkerPlace(Struct, frozen=True, kw_only=True):
    """An endpoint, and the box whose grants its clients' rings go into."""

    endpoint: str
    """As this host sees it."""
    paths: BoxPaths | None
    """The worker's box on this host; None over tcp or for a socket outside of any box: tensors
    then travel as raw frames."""
    borrowed: bool

    @property
    def box(self) -> str | None:
        """The id of the worker's box, for `ConnectWorker.box`."""
        return None if self.paths is None else self.paths.box

    def endpoint_for(self, view: Literal["container", "host"]) -> str:
        """Return the endpoint as a simulator started in `view` sees it."""
        if view == "host" or not is_ipc(self.endpoint):
            return self.endpoint
        name = ipc_path(self.endpoint).name
        if self.borrowed:
            return ipc_endpoint(CONTAINER_WORKER_SOCKETS / name)
        return ipc_endpoint(CONTAINER_ROOM / "sockets" / name)

    def simulator_mounts(self, own: BoxPaths) -> tuple[Mount, ...]:
        """Return what a simulator's container needs to reach the worker; `own` is the run's box."""
        box = self.paths or own
        mounts = [
            Mount(str(box.grants), str(SHM), read_only=False),
            Mount(str(box.results), str(CONTAINER_ROOM / "results")),
        ]
        if self.borrowed and is_ipc(self.endpoint):
            sockets = ipc_path(self.endpoint).parent
            mounts.append(Mount(str(sockets), str(CONTAINER_WORKER_SOCKETS), read_only=False))
        return tuple(mounts)

    @property
    def needs_network(self) -> bool:
        """Whether a container must leave its own network to get there."""
        return not is_ipc(self.endpoint)


def borrow(endpoint: str) -> WorkerPlace:
    """Return the place of a worker that runs already and that we never stop.

    Raises `UsageError` when `endpoint` is not an address, `LaunchError` when its socket is not
    there, may not be used, or has nothing behind it. A tcp endpoint is only read, not tried.
    """
    check_endpoint(endpoint)
    paths = None
    if is_ipc(endpoint):
        _try_socket(endpoint)
        box = box_of_endpoint(endpoint)
        if box is not None:
            found = BoxPaths.on_host(box, runtime_dir=runtime_dir_of_endpoint(endpoint))
            paths = found if found.grants.is_dir() else None
    return WorkerPlace(endpoint=endpoint, paths=paths, borrowed=True)


def _try_socket(endpoint: str) -> None:
    # A raw connect: ZeroMQ would wait without a word for a socket that is not there.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        try:
            probe.connect(str(ipc_path(endpoint)))
        except FileNotFoundError as error:
            raise LaunchError(
                f"there is no worker at {endpoint}: the socket does not exist",
                hint="Start one, which prints its endpoint: rpent-box serve BACKEND",
            ) from error
        except PermissionError as error:
            raise LaunchError(
                f"the worker at {endpoint} is another user's: its socket may not be used",
                hint="Start your own: rpent-box serve BACKEND",
            ) from error
        except OSError as error:
            raise LaunchError(
                f"nothing listens at {endpoint}: its worker has ended ({error.strerror})",
                hint="Start one, which prints its endpoint: rpent-box serve BACKEND",
            ) from error
