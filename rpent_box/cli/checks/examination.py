# SPDX-License-Identifier: Apache-2.0
"""Every check, in the order in which a person would look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from rpent_box.cli.catalogue import Look
from rpent_box.cli.checks.channels import check_ring, check_shm_size, check_socket
from rpent_box.cli.checks.engine import check_docker_command, check_engine_answers
from rpent_box.cli.checks.finding import Finding, fail
from rpent_box.cli.checks.machine import (
    check_disk,
    check_gpus,
    check_leftovers,
    check_memory,
    check_python,
    check_user,
)
from rpent_box.cli.checks.programs import check_assets, check_prepared, check_rendering
from rpent_box.cli.words import platform_arguments
from rpent_box.errors import BadOption
from rpent_box.evaluate.config import LauncherName
from rpent_box.plugins import backend_names, find_platform, platform_names
from rpent_box.sim.platform import PlatformPlugin


class Examination(Struct, frozen=True, kw_only=True):
    """What to look at."""

    platform: str | None
    """Draw with this one; None: with each that is built."""
    platform_words: tuple[str, ...] = ()
    """Its own options, where one is named."""
    render: bool
    launcher: LauncherName
    platform_python: str | None
    platform_cuda_device: str | None
    timeout_s: float
    runtime_dir: str | None


def examine(asked: Examination, look: Look, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield each finding as soon as it is known. Raises `UnknownName`."""
    rooms = Path(asked.runtime_dir) if asked.runtime_dir else None
    chosen = [find_platform(asked.platform).name] if asked.platform else platform_names()
    yield check_python()
    yield check_user()
    yield check_memory()
    yield check_disk(Path.cwd())
    yield check_shm_size()
    yield check_ring()
    yield check_socket(rooms)
    yield check_engine_answers()
    yield check_docker_command(environ)
    yield check_gpus()
    yield check_leftovers(rooms)
    for name in backend_names():
        yield check_prepared("backend", name, look)
    for name in chosen:
        yield check_prepared("platform", name, look)
    for name in chosen:
        if asked.platform or asked.platform_python or _is_built(name, look, asked.launcher):
            yield from _look_at_platform(name, asked, environ)


def _look_at_platform(
    name: str, asked: Examination, environ: Mapping[str, str]
) -> Iterator[Finding]:
    plugin = find_platform(name)
    try:
        words = platform_arguments(plugin, [], words=asked.platform_words, environ=environ)
    except BadOption as error:
        yield fail(f"options {name}", error.message, error.hint)
        return
    yield from check_assets(plugin, words)
    if asked.render:
        yield from _render(plugin, words, asked)


def _render(plugin: PlatformPlugin, words: Sequence[str], asked: Examination) -> list[Finding]:
    return check_rendering(
        plugin,
        words,
        launcher=asked.launcher,
        python=asked.platform_python,
        cuda_device=asked.platform_cuda_device,
        timeout_s=asked.timeout_s,
        runtime_dir=asked.runtime_dir,
    )


def _is_built(name: str, look: Look, launcher: LauncherName) -> bool:
    """Say whether runs could start this platform: with an engine they take its image."""
    prepared = look("platform", name)
    in_container = launcher == "docker" or (launcher == "auto" and prepared.image != "no engine")
    return (
        (prepared.image in ("ready", "stale"))
        if in_container
        else (prepared.environment == "ready")
    )
