# SPDX-License-Identifier: Apache-2.0
"""Containers that may do what a launcher's may: nothing but their work."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpent_box.launch.engine import Engine

UID = 54321
"""A user that no image knows."""
EROFS, ENETUNREACH = 30, 101
CONFINED = {
    "uid": UID,
    "capabilities": 0,
    "root": EROFS,
    "network": ENETUNREACH,
    "stdin": "",
}
"""What `look_around` sees in a container that is confined."""
_LOOK = """
import json, os, socket
def refused(action):
    try:
        action()
    except OSError as error:
        return error.errno
caps = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")]
print(json.dumps({
    "uid": os.getuid(),
    "capabilities": int(caps[0], 16),
    "root": refused(lambda: open("/opt/probe", "w")),
    "network": refused(lambda: socket.create_connection(("192.0.2.1", 80), 5)),
    "stdin": os.read(0, 1).decode(),
}))
"""


def look_around(engine: Engine, image: str) -> dict[str, Any]:
    """Return what a process in a confined container of `image` is, and what it may not do."""
    code, said = run_confined(engine, image, ["-c", _LOOK], entrypoint="python3")
    assert code == 0, said
    found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return found


def run_confined(
    engine: Engine,
    image: str,
    command: Sequence[str],
    *,
    entrypoint: str | None = None,
    uid: int = UID,
    read_only: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 600,
) -> tuple[int, str]:
    """Run to the end, confined as the launcher does it; return exit code and output.

    Folders of the host are mounted where they are there.
    """
    # Its helper container comes from a registry; containers end with their `with` block here.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(
        image,
        read_only=True,
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        user=f"{uid}:{uid}",
        init=True,
        entrypoint=entrypoint,
    )
    container.with_command(list(command)).with_tmpfs_mount("/tmp")
    for folders, mode in ((read_only, "ro"), (writable, "rw")):
        for folder in folders:
            container.with_volume_mapping(str(folder), str(folder), mode)
    for name, value in (environment or {}).items():
        container.with_env(name, value)
    with container:
        wrapped = container.get_wrapped_container()
        status = wrapped.wait(timeout=timeout_s)
        return int(status["StatusCode"]), wrapped.logs().decode()
