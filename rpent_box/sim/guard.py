# SPDX-License-Identifier: Apache-2.0
"""Ends this process when its owner is gone, whatever the main thread is doing."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from rpent_box.transport.lease import LeaseWatch
from rpent_box.transport.paths import SHM, BoxPaths, ipc_path, is_ipc

ABANDONED = 3
"""Exit code of a process whose owner is gone."""

_LOOK_S = 3600.0

_log = logging.getLogger("rpent_box.sim")


def end_with_owner(lease: Path, *, last_act: Callable[[], None]) -> threading.Thread:
    """Start a thread that runs `last_act` and ends the process once nobody holds `lease`.

    The main thread may be inside the simulator's native code, where no exception reaches it: the
    process ends without unwinding, so `last_act` removes what would be left behind.
    """

    def watch() -> None:
        lease_watch = LeaseWatch(lease)
        try:
            while not lease_watch.wait(_LOOK_S):
                continue
            _log.error("the owner of %s is gone: ending", lease)
            last_act()
        except Exception:  # noqa: BLE001 - a process that nobody watches over must not live on
            _log.exception("the watch over %s ends, and this process with it", lease)
        finally:
            os._exit(ABANDONED)

    thread = threading.Thread(target=watch, name="lease", daemon=True)
    thread.start()
    return thread


def remove_segments(paths: BoxPaths, client: str) -> None:
    """Unlink the rings that `client` of this process has made, and their grants.

    Only names: the memory goes with the process. `client` must be unique to this process.
    """
    prefix = paths.segment_name(client).lstrip("/")
    for folder in {SHM, paths.grants}:
        for path in folder.glob(f"{prefix}-*"):
            path.unlink(missing_ok=True)


def remove_socket(endpoint: str) -> None:
    """Unlink the socket that this process is bound to, and its lock."""
    if is_ipc(endpoint):
        path = ipc_path(endpoint)
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
