# SPDX-License-Identifier: Apache-2.0
"""Containers by label, ended and removed, over the engine's socket and without its SDK.

A reaper does this when everything else has died, perhaps on a machine that is out of breath; the
SDK alone would take longer to import than the containers take to end.
"""

from __future__ import annotations

import http.client
import os
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from rpent_box.errors import EngineMissing, LaunchError
from rpent_box.launch.engine_socket import WITHOUT, check_engine, engine_socket
from rpent_box.launch.held import is_dead
from rpent_box.transport.paths import GRANTS_ROOT, SHM

LABEL_BOX = "rpent-box.box"
LABEL_ROLE = "rpent-box.role"
LABEL_OWNER = "rpent-box.owner"
LABEL_MACHINE = "rpent-box.machine"
"""`<boot id>/<device of /dev/shm>`: an engine's socket may be lent to other namespaces, where a box
that we cannot see lives on."""

STOP_S = 2.0
"""For programs that see by themselves, within half a second, that their owner is gone."""
TIMEOUT_S = 60.0
GONE_TIMEOUT_S = 10.0
POLL_S = 0.1
AT_ONCE = 8

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_GONE, _CONFLICT = 404, 409


class Found(Struct, frozen=True, rename="pascal"):
    """One container as the engine lists it."""

    id: str
    names: tuple[str, ...]
    state: str
    """`created`, `running`, `exited`, …"""
    labels: dict[str, str]

    def describe(self) -> str:
        """Return `container <name>`."""
        return f"container {self.names[0].lstrip('/') if self.names else self.id[:12]}"


def containers_of(box_id: str) -> list[Found]:
    """Return every container of a box. Raises `EngineMissing` or `LaunchError`."""
    return _labelled(f"{LABEL_BOX}={box_id}")


def lost_containers() -> list[Found]:
    """Return this user's containers whose box is gone. Raises `EngineMissing` or `LaunchError`."""
    return [one for one in _labelled(f"{LABEL_OWNER}={os.getuid()}") if _is_lost(one)]


def end_containers(found: Sequence[Found]) -> list[str]:
    """SIGTERM, up to two seconds, SIGKILL, remove: all at once. Return what was ended.

    Raises `EngineMissing` or `LaunchError` when one cannot be removed; the others are.
    """
    if not found:
        return []
    # Side by side: one that the engine is slow to end must not keep the others waiting.
    with ThreadPoolExecutor(max_workers=AT_ONCE) as threads:
        ended = [threads.submit(_end, one.id) for one in found]
    for one in ended:
        one.result()
    return [one.describe() for one in found]


def remove_container(container_id: str) -> None:
    """Kill it if it runs and remove it; return once it has gone. Two may do so at once."""
    status = _ask("DELETE", f"/containers/{container_id}?force=1&v=1", fine=(_GONE, _CONFLICT))[0]
    deadline = time.monotonic() + GONE_TIMEOUT_S
    # A conflict: someone else is removing it, a reaper or a sweep.
    while status == _CONFLICT and _ask("GET", f"/containers/{container_id}/json")[0] != _GONE:
        if time.monotonic() >= deadline:
            raise LaunchError(
                f"the container {container_id[:12]} could not be removed",
                hint=f"See: docker rm --force {container_id[:12]}",
            )
        time.sleep(POLL_S)


def this_machine() -> str:
    """Return what `LABEL_MACHINE` holds for containers started here and now."""
    return f"{_BOOT_ID.read_text().strip()}/{os.stat(SHM).st_dev}"


def _end(container_id: str) -> None:
    place = f"/containers/{container_id}"
    # Gone, or not running: nothing to tell.
    _ask("POST", f"{place}/kill?signal=SIGTERM", fine=(_GONE, _CONFLICT))
    try:
        _ask("POST", f"{place}/wait?condition=not-running", timeout_s=STOP_S)
    except EngineMissing as error:
        if not isinstance(error.__cause__, TimeoutError):
            raise
    remove_container(container_id)


def _labelled(label: str) -> list[Found]:
    # Once for all that follows: this says best why there is no engine.
    check_engine(engine_socket())
    filters = quote(msgspec.json.encode({"label": [label]}))
    _, answer = _ask("GET", f"/containers/json?all=1&filters={filters}", fine=())
    return msgspec.json.decode(answer, type=list[Found])


def _is_lost(container: Found) -> bool:
    machine = container.labels.get(LABEL_MACHINE, "")
    if machine == this_machine():
        return is_dead(GRANTS_ROOT / container.labels.get(LABEL_BOX, "none"))
    # No box outlives a reboot. One of this boot but of another /dev/shm is not ours to judge.
    booted_before = machine.split("/")[0] != this_machine().split("/")[0]
    return booted_before and container.state != "running"


def _ask(
    method: str, path: str, *, fine: Sequence[int] = (_GONE,), timeout_s: float = TIMEOUT_S
) -> tuple[int, bytes]:
    """Ask the engine and return status and body.

    Raises `LaunchError` for a status of 400 and above that is not `fine`, `EngineMissing` when it
    does not answer.
    """
    where = engine_socket()
    connection = _Connection(where, timeout_s)
    try:
        # Without a version in the path, every engine answers in its own newest one.
        connection.request(method, path)
        response = connection.getresponse()
        status, body = response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        raise EngineMissing(
            f"the Docker engine at {where} did not answer {method} {path.split('?')[0]}: {error}",
            hint=f"Is it running? sudo systemctl status docker. {WITHOUT}",
        ) from error
    finally:
        connection.close()
    if status >= 400 and status not in fine:
        said = body.decode(errors="replace").strip()
        raise LaunchError(
            f"the Docker engine refused {method} {path.split('?')[0]}: {said or status}",
            hint="See: rpent-box doctor",
        )
    return status, body


class _Connection(http.client.HTTPConnection):
    """HTTP over the engine's Unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._timeout_s)
        self.sock.connect(str(self._path))
