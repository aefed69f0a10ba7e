# SPDX-License-Identifier: Apache-2.0
"""Images and environments, and a frame drawn by the simulator itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from rpent_box.cli.catalogue import Look
from rpent_box.cli.checks.finding import Finding, fail, ok, warn
from rpent_box.errors import (
    AssetsMissing,
    BadOption,
    BrokenPlugin,
    DeadlineExceeded,
    LaunchError,
    RpentBoxError,
)
from rpent_box.evaluate.config import LauncherName
from rpent_box.launch.box import Box
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.environments import require_environment
from rpent_box.launch.gpus import gpus_of
from rpent_box.launch.images import image_name
from rpent_box.launch.mounts import mounts_of
from rpent_box.launch.program import Launcher, Program, Running
from rpent_box.launch.recipe import Kind, build_command, platform_target, run_command
from rpent_box.launch.simulator import whole_options
from rpent_box.options import parse_options
from rpent_box.plugins import find_backend, find_platform
from rpent_box.sim.check import PlatformCheck
from rpent_box.sim.platform import PlatformPlugin

MODULE = "rpent_box.sim.check"
POLL_S = 0.2
ON_A_GPU = "To draw on a GPU, see docs/troubleshooting.md, Rendering. Nothing needs to be done."


def check_prepared(kind: Kind, name: str, look: Look) -> Finding:
    """Whether a backend or platform could start now."""
    prepared = look(kind, name)
    title = f"{kind} {name}"
    if prepared.image == prepared.environment == "no recipe":
        return ok(title, "installed by itself; give its Python with --python or --platform-python")
    text = f"image {prepared.image}, environment {prepared.environment}"
    command = build_command(name)
    if kind == "platform":
        command = platform_target(find_platform(name)).command
    if prepared.image == "stale":
        return warn(title, text, command)
    if "ready" in (prepared.image, prepared.environment):
        return ok(title, text)
    try:
        if kind == "backend" and find_backend(name).needs_checkpoint:
            # Of many large models a machine serves a few: what is not wanted is not missing.
            return ok(title, f"{text}; to use it: {command}")
    except BrokenPlugin as error:
        return fail(title, error.message, error.hint)
    return warn(title, text, command)


def check_assets(plugin: PlatformPlugin, words: Sequence[str]) -> list[Finding]:
    """Whether what the platform draws is there; `words` are its own options.

    What is missing is a warning: everything but a run can be done without. Empty for a platform
    that needs none.
    """
    if plugin.require is None:
        return []
    title = f"assets {plugin.name}"
    try:
        whole, _ = whole_options(plugin, words)
        plugin.require(parse_options(plugin.options, whole, program=run_command(plugin)))
    except AssetsMissing as error:
        return [warn(title, error.message, error.hint)]
    except BadOption as error:
        return [fail(title, error.message, error.hint)]
    return [ok(title, "all there")]


def check_rendering(
    plugin: PlatformPlugin,
    words: Sequence[str] = (),
    *,
    launcher: LauncherName,
    python: str | None,
    cuda_device: str | None,
    timeout_s: float,
    runtime_dir: str | None,
) -> list[Finding]:
    """Draw one frame where runs would draw it, name the renderer, compare the known scene.

    `words` are the platform's own options.
    """
    title = f"render {plugin.name}"
    try:
        found = run_check(
            plugin,
            words,
            launcher=launcher,
            python=python,
            cuda_device=cuda_device,
            timeout_s=timeout_s,
            runtime_dir=runtime_dir,
        )
    except RpentBoxError as error:
        return [fail(title, error.message, error.hint)]
    return findings_of(found)


def findings_of(found: PlatformCheck) -> list[Finding]:
    """Return what a check within the simulator's environment comes to."""
    title, golden = f"render {found.platform}", f"golden {found.platform}"
    compared = "the settled state and the first frame are as recorded"
    if found.error:
        return [fail(title, found.error, found.hint)]
    if found.blank:
        return [fail(title, f"{found.renderer} draws nothing for {', '.join(found.blank)}")]
    text = f"{found.renderer}; a scene is built and drawn in {found.reset_s:.1f} s"
    drawn = ok(title, text)
    if found.missing:
        text = f"{found.renderer}; no scene of its tasks could be drawn: {found.missing}"
        drawn = warn(title, text, found.hint)
        compared = "a known scene that needs no assets is as recorded; no task was looked at"
    elif found.in_software:
        drawn = warn(title, f"{text}. This is software rendering: correct, and slow", ON_A_GPU)
    if not found.compared:
        return [drawn]
    if found.differs:
        versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
        message = "\n".join([*found.differs, f"here: {versions}"])
        return [drawn, fail(golden, message, build_command(found.platform))]
    return [drawn, ok(golden, compared)]


def run_check(
    plugin: PlatformPlugin,
    words: Sequence[str] = (),
    *,
    launcher: LauncherName,
    python: str | None,
    cuda_device: str | None,
    timeout_s: float,
    runtime_dir: str | None,
) -> PlatformCheck:
    """Run `rpent_box.sim.check` in the platform's image or environment.

    Raises `LaunchError`, and `BadOption` for a path among `words` where nothing is.
    """
    chosen, _ = choose_launcher("process" if python else launcher)
    with TemporaryDirectory(prefix="rpent-box-doctor-") as folder, Box.create(runtime_dir) as box:
        log = str(Path(folder) / "check.log")
        program = _program(plugin, words, chosen, python, gpus_of(cuda_device), log)
        running = chosen.start(program, box)
        _wait(running, timeout_s)
        return read_check(running)


def read_check(running: Running) -> PlatformCheck:
    """Return the last line that the check has printed. Raises `LaunchError` if it is none."""
    lines = running.last_log_lines(400).splitlines()
    for line in reversed(lines):
        try:
            return msgspec.json.decode(line, type=PlatformCheck)
        except msgspec.DecodeError:
            continue
    raise LaunchError(
        f"{running.describe()} ended without an answer",
        hint="Its last words: --verbose",
        detail="\n".join(lines[-60:]),
    )


def _program(
    plugin: PlatformPlugin,
    words: Sequence[str],
    launcher: Launcher,
    python: str | None,
    gpus: tuple[str, ...],
    log: str,
) -> Program:
    whole, named = whole_options(plugin, words)
    return Program(
        role="simulator",
        name=plugin.name,
        module=MODULE,
        arguments=(plugin.name, *whole),
        image=image_name(*platform_target(plugin)),
        python=python or _environment_of(plugin, launcher),
        root=None,
        defaults=dict(plugin.environment),
        mounts=mounts_of(named) if launcher.view == "container" else (),
        gpus=gpus,
        log=log,
    )


def _environment_of(plugin: PlatformPlugin, launcher: Launcher) -> str:
    if launcher.name != "process":
        return ""
    return str(require_environment(*platform_target(plugin)))


def _wait(running: Running, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while running.exit_status() is None:
        if time.monotonic() >= deadline:
            raise DeadlineExceeded(
                f"{running.describe()} has drawn no frame in {timeout_s:.0f} s",
                hint="Allow more: --timeout",
                detail=running.last_log_lines(60),
            )
        time.sleep(POLL_S)
