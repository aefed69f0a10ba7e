# SPDX-License-Identifier: Apache-2.0
"""Simulators as programs: what to start for a platform."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rpent_box.errors import AssetsMissing, BadOption
from rpent_box.launch.box import Box
from rpent_box.launch.given_paths import with_whole_paths
from rpent_box.launch.gpus import gpus_of
from rpent_box.launch.mounts import mounts_of
from rpent_box.launch.place import WorkerPlace
from rpent_box.launch.program import Launcher, Mount, Program
from rpent_box.launch.recipe import run_command
from rpent_box.launch.worker import seen_paths
from rpent_box.sim.platform import PlatformPlugin
from rpent_box.transport.paths import CONTAINER_ROOM, BoxPaths

MODULE = "rpent_box.sim.serve"
CONTAINER_OUTPUT = CONTAINER_ROOM / "output"


def simulator_program(
    plugin: PlatformPlugin,
    launcher: Launcher,
    box: Box,
    *,
    options: Sequence[str],
    output_dir: str | Path,
    threads: int,
    log: str,
    python: str,
    image: str,
    number: int = 0,
    worker: WorkerPlace | None = None,
    cpus: Sequence[int] = (),
    cuda_device: str | None = None,
) -> Program:
    """Return the program that serves `plugin` in `box`.

    `options` are the words of the platform's own options. `number` tells a run's simulators apart
    and chooses the socket, `box.paths.sim_endpoint(number)` on the host. `worker` is where the
    worker listens, when it is not in this box. `cuda_device` is what it may draw on, by index or
    UUID. Raises `BadOption` when a path in the options does not exist.
    """
    seen = seen_paths(launcher, box)
    place = worker or box.worker_place
    words = [plugin.name, "--endpoint", seen.sim_endpoint(number)]
    words += ["--box", box.id, "--view", launcher.view, "--lease", str(seen.lease)]
    words += ["--threads", str(threads)]
    options, named = whole_options(plugin, options)
    output = Mount(str(Path(output_dir).absolute()), str(CONTAINER_OUTPUT), read_only=False)
    return Program(
        role="simulator",
        name=plugin.name,
        module=MODULE,
        arguments=(*words, *options),
        image=image,
        python=python,
        root=None,
        defaults=dict(plugin.environment),
        mounts=(
            *_mounts(box.paths),
            *place.simulator_mounts(box.paths),
            output,
            *(mounts_of(named) if launcher.view == "container" else ()),
        ),
        gpus=gpus_of(cuda_device),
        network=place.needs_network,
        threads=threads,
        cpus=tuple(cpus),
        log=log,
    )


def whole_options(plugin: PlatformPlugin, words: Sequence[str]) -> tuple[Sequence[str], list[Path]]:
    """Return the words of the platform's own options with absolute paths, and those paths.

    A container sees each of them, read-only, at the same place. Raises `BadOption` for a path where
    nothing is.
    """
    try:
        return with_whole_paths(
            plugin.options, words, program=run_command(plugin), prefix=f"{plugin.name}-"
        )
    except BadOption as error:
        error.hint = "\n".join(filter(None, (error.hint, how_to_fetch(plugin))))
        raise


def how_to_fetch(plugin: PlatformPlugin) -> str:
    """Return what the platform says when its assets are missing; empty for one that has none."""
    if plugin.require is None:
        return ""
    try:
        plugin.require(plugin.options())
    except AssetsMissing as error:
        return error.hint
    return ""


def simulator_output_dir(launcher: Launcher, output_dir: str | Path) -> str:
    """Return `output_dir` as the simulator sees it, for `PlayEpisode.output_dir`."""
    return str(Path(output_dir).absolute() if launcher.view == "host" else CONTAINER_OUTPUT)


def _mounts(paths: BoxPaths) -> tuple[Mount, ...]:
    return (
        Mount(str(paths.sockets), str(CONTAINER_ROOM / "sockets"), read_only=False),
        Mount(str(paths.lease), str(CONTAINER_ROOM / "lease")),
    )
