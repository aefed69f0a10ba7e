# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster of several nodes on this machine, and ways to lose parts of it."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rpent_box.evaluate.scale.ray_cluster import import_ray

QUICK = {
    # A lost node is noticed within a second or two, and not after a quarter of a minute.
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 400,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}
STORE_BYTES = 80 * 1024 * 1024
ACTOR = b"ray::NodePlayer"
TEMPORARY = "RAY_TMPDIR"


class RayNodes:
    """Nodes of one cluster. The first has no CPUs: it is where the driver connects."""

    def __init__(self, folder: Path) -> None:
        import_ray()
        from ray.cluster_utils import Cluster

        # Ray then keeps a process that ends the nodes when this one is killed.
        self._cluster = Cluster(shutdown_at_exit=True)
        self._nodes = []
        self._add(
            num_cpus=0,
            include_dashboard=False,
            include_log_monitor=False,
            no_monitor=True,
            object_store_memory=STORE_BYTES,
            temp_dir=str(folder),
            _system_config=QUICK,
        )

    @property
    def address(self) -> str:
        return self._cluster.address

    def add(self, count: int = 1, *, cpus: int = 1) -> None:
        """Add nodes of `cpus` CPUs each."""
        for _ in range(count):
            self._nodes.append(self._add(num_cpus=cpus, object_store_memory=STORE_BYTES))

    def __len__(self) -> int:
        return len(self._nodes)

    def lose(self, number: int = -1) -> None:
        """Lose a node as when its machine loses power: all that is Ray's there is killed."""
        node = self._nodes.pop(number)
        pids = self._actors(node)
        self._cluster.remove_node(node, allow_graceful=False)
        for pid in pids:
            _kill(pid)

    def replace(self, number: int = -1) -> None:
        """Lose a node, and get another one of its size: what a kill of a Ray node is."""
        cpus = int(self._nodes[number].get_resource_and_label_spec().num_cpus)
        self.lose(number)
        self.add(cpus=cpus)

    def actors(self) -> list[int]:
        """Return the processes of the actors that play, in the order of their nodes."""
        return [pid for node in self._nodes for pid in self._actors(node)]

    def kill_actor(self, number: int = 0) -> int:
        """Kill -9 the process of one actor; Ray starts another one. Return its number."""
        pid = self.actors()[number]
        os.kill(pid, signal.SIGKILL)
        return pid

    def close(self) -> None:
        self._cluster.shutdown()

    def _add(self, **settings):
        # It takes SIGTERM for itself, which is the caller's.
        before = signal.getsignal(signal.SIGTERM)
        try:
            return self._cluster.add_node(**settings)
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)

    def _actors(self, node) -> list[int]:
        (raylet,) = node.all_processes["raylet"]
        return [pid for pid in _children(raylet.process.pid) if _command(pid).startswith(ACTOR)]


@contextmanager
def ray_nodes(count: int, *, cpus: int = 1) -> Iterator[RayNodes]:
    """Yield a cluster of `count` nodes with room. Its nodes get this process's environment."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    with _folder() as folder, closing(RayNodes(folder / "ray")) as nodes:
        nodes.add(count, cpus=cpus)
        yield nodes


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a folder for all that Ray writes: it notes the cluster's address where others look for
    one too, and does not make that folder."""
    folder = Path(tempfile.mkdtemp(prefix="rn-", dir="/tmp"))
    (folder / "ray").mkdir()
    before = os.environ.get(TEMPORARY)
    os.environ[TEMPORARY] = str(folder)
    try:
        yield folder
    finally:
        if before is None:
            del os.environ[TEMPORARY]
        else:
            os.environ[TEMPORARY] = before
        shutil.rmtree(folder, ignore_errors=True)


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_for(what, within_s: float = 30.0) -> bool:
    """Wait until `what()` is true; say whether it came within the time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.1)
    return False
