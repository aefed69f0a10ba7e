# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster: one that runs, or one of our own on this machine. Ray is imported here only."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType, TracebackType

from msgspec import Struct

from rpent_box.errors import LaunchError, UsageError
from rpent_box.launch.box import Box
from rpent_box.launch.marked import MARK

AUTO = "auto"
_ADDRESS = "RAY_ADDRESS"
_AUTHENTICATION = "RAY_AUTH_MODE"
CONNECT_S = 10.0
_STORE_BYTES = 256 * 1024 * 1024
"""For results on their way, of a cluster of our own; Ray would take a third of the memory."""
_QUIET = {
    # Ray tells its makers what it is used for, unless this is said before it starts.
    "RAY_USAGE_STATS_ENABLED": "0",
    # Its remarks on lost machines go to our standard output else, which may be read by a program.
    # What they say the evaluation says in its own words.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",
}


class RayMachine(Struct, frozen=True, kw_only=True):
    """A machine of the cluster, as Ray counts it."""

    identifier: str
    name: str
    cpus: int
    gpus: int


class RayCluster:
    """A connection to a cluster. A context manager; leaving it ends what this program has there.

    A cluster that was started for it ends too, and its files are removed, also when this program is
    killed: its processes and its folder belong to a box.
    """

    def __init__(self, address: str, runtime_dir: str | None = None) -> None:
        """`address` is `auto` or `host:port`. `auto`: the cluster that the variable RAY_ADDRESS
        names, else one of our own. Raises `UsageError` for another kind of address."""
        self._address = _address(address)
        if self._address is None and not _is_in_one():
            _protect()
        self._runtime_dir = runtime_dir
        self._undo = ExitStack()
        self.ray: ModuleType = import_ray()

    def __enter__(self) -> RayCluster:
        """Raises `LaunchError` when there is no cluster, or it has another version of Ray."""
        with ExitStack() as undo:
            if not self.ray.is_initialized():
                self._connect(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    def machines(self) -> list[RayMachine]:
        """Return the machines that live, by name."""
        found = [
            RayMachine(
                identifier=node["NodeID"],
                name=node["NodeManagerHostname"] or node["NodeManagerAddress"],
                cpus=int(node["Resources"].get("CPU", 0)),
                gpus=int(node["Resources"].get("GPU", 0)),
            )
            for node in self.ray.nodes()
            if node["Alive"]
        ]
        return sorted(found, key=lambda one: (one.name, one.identifier))

    def _connect(self, undo: ExitStack) -> None:
        if self._address is not None:
            _require_listening(self._address)
            undo.callback(self.ray.shutdown)
            self._init(address=self._address)
            return
        box = undo.enter_context(Box.create(self._runtime_dir))
        undo.callback(self.ray.shutdown)
        # What carries the box's mark ends with it: Ray's own processes, and not those of the boxes
        # that are made on its nodes, which carry their own.
        with _environment({MARK: box.id}):
            self._init(
                address="local",
                include_dashboard=False,
                object_store_memory=_STORE_BYTES,
                _temp_dir=str(box.paths.room / "ray"),
            )

    def _init(self, address: str, **more: str | int) -> None:
        try:
            self.ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **more,
            )
        except (
            OSError,
            RuntimeError,
            ValueError,
            self.ray.exceptions.RayError,
        ) as error:
            # Ray raises each of them: nobody answers, a path is too long, another version, a token.
            raise _unusable(address, error) from error


def import_ray() -> ModuleType:
    """Return Ray, told to be quiet. Raises `UsageError` when it is not installed."""
    for name, text in _QUIET.items():
        os.environ.setdefault(name, text)
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        # Late: it is an extra, and takes a second.
        import ray
    except ImportError as error:
        raise UsageError(
            f"--ray needs Ray, which is not installed: {error}",
            hint="Install it: pip install 'rpent-box[ray]'",
        ) from error
    module: ModuleType = ray
    return module


def bundles(
    machines: Sequence[RayMachine], *, cpus: int | None, gpus: int, count: int | None
) -> list[dict[str, float]]:
    """Return what to reserve, on a machine of its own each, for `count` boxes.

    Without `count`, one for each machine that has room: a CPU at least, and `gpus`. Each takes
    `cpus`, at most what its machine has; without `cpus`, all of that. Raises `LaunchError` when
    there is no room at all.
    """
    fit = [one for one in machines if one.cpus >= 1 and one.gpus >= gpus]
    fit.sort(key=lambda one: -one.cpus)
    if not fit and count is None:
        raise LaunchError(
            f"no machine of the cluster has room for a box, which takes 1 CPU at least and {gpus} "
            f"GPUs; there is: {shown(machines)}",
            hint="With --ray-nodes N it waits until there are N.",
        )
    sizes = [min(one.cpus, cpus or one.cpus) for one in fit] or [cpus or 1]
    wanted = len(fit) if count is None else count
    # More than there are now: machines of the largest kind, which the cluster may still get.
    sizes = sizes[:wanted] + [sizes[0]] * (wanted - len(sizes))
    return [{"CPU": size, **({"GPU": gpus} if gpus else {})} for size in sizes]


def in_words(bundle: Mapping[str, float]) -> str:
    """Return what a bundle takes: `4 CPUs and 1 GPU`."""
    counts = [f"{count:.0f} {name}{'s' if count != 1 else ''}" for name, count in bundle.items()]
    return " and ".join(counts)


def shown(machines: Sequence[RayMachine]) -> str:
    """Return what a cluster has: `hare (8 CPUs, 1 GPUs), …`."""
    words = (f"{one.name} ({one.cpus} CPUs, {one.gpus} GPUs)" for one in machines)
    return ", ".join(words) or "none"


def _address(asked: str) -> str | None:
    """Return `host:port` of a cluster that runs; None: one of our own is wanted."""
    named = os.environ.get(_ADDRESS, "") if asked == AUTO else asked
    if not named:
        return None
    origin = f"--ray {asked}" if named == asked else f"{_ADDRESS}={named}"
    host, _, port = named.rpartition(":")
    if "/" in named or not host or not port.isdecimal():
        raise UsageError(
            f"{origin} is not where a cluster's head listens: addresses of Ray's client and of its "
            "dashboard lead elsewhere",
            hint="Give HOST:PORT of the head (6379 is usual), on a machine that belongs to the "
            "cluster; or submit the command there: ray job submit -- rpent-box eval …",
        )
    return named


def _is_in_one() -> bool:
    """Say whether this program has connected to a cluster itself; that one is used then."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _protect() -> None:
    """Have a cluster of our own ask for a token: Ray listens to the whole network, and runs
    whatever whoever gets through tells it to.

    Raises `UsageError` when it is too late for that.
    """
    if _AUTHENTICATION in os.environ:
        return
    if "ray" in sys.modules:
        raise UsageError(
            "Ray was imported before it could be told to ask for a token, without which anyone in "
            "the network could run programs in the cluster that --ray auto starts",
            hint="Start one yourself, and name it in RAY_ADDRESS; or call ray.init() before.",
        )
    os.environ.update({_AUTHENTICATION: "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)})


def _require_listening(address: str) -> None:
    """Raise `LaunchError` when nobody listens there: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as error:
        raise _unusable(address, error) from error


def _unusable(address: str, error: Exception) -> LaunchError:
    return LaunchError(
        f"Ray cannot be used at {address}: {error}",
        hint="Is a node of that cluster running on this machine, with the same Ray and Python? "
        "See: ray status",
    )


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Have children started meanwhile inherit `changes`; Ray takes no environment of its own."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text
