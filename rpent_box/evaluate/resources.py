# SPDX-License-Identifier: Apache-2.0
"""The images or Python environments that a run needs: found, or built when asked to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from rpent_box.errors import ImageMissing
from rpent_box.evaluate.config import ProgramsConfig
from rpent_box.launch.environments import build_environment, find_environment, require_environment
from rpent_box.launch.images import image_id, image_name, image_state
from rpent_box.launch.program import Launcher, Program
from rpent_box.launch.recipe import Target

if TYPE_CHECKING:
    from rpent_box.launch.engine import Engine

Say: TypeAlias = Callable[[str], None]

IN_IMAGE = "python"
"""The interpreter's name where an image brings it."""


class Resources(Struct, frozen=True, kw_only=True):
    """What one program is started from."""

    python: str
    """For the process launcher."""
    image: str
    """For the docker launcher."""


def find_resources(
    target: Target, given: str | None, launcher: Launcher, config: ProgramsConfig, say: Say
) -> Resources:
    """Return the interpreter or the image for `target`; `given` is an interpreter that was chosen.

    Builds a missing environment when `config.build` asks for it, and says when an image is old.
    Raises `EnvironmentMissing` or `ImageMissing` with the command that builds it, and
    `LaunchError` when a build fails.
    """
    if launcher.name == "docker":
        image = _find_image(target, launcher, say)
        return Resources(python=IN_IMAGE, image=image)
    python = given or _find_python(target, config, say)
    return Resources(python=python, image=image_name(*target))


def _find_python(target: Target, config: ProgramsConfig, say: Say) -> str:
    if config.build and find_environment(*target) is None:
        return str(build_environment(*target, say=say, environ=_environ(config)))
    return str(require_environment(*target))


def build_images_of(
    wanted: Sequence[Target], launcher: Launcher, config: ProgramsConfig, say: Say
) -> None:
    """Build those images of `wanted` that are missing or old, side by side.

    Does nothing for processes. Raises `LaunchError` when a build fails.
    """
    engine = _engine(launcher)
    if engine is None:
        return
    unready = [target for target in wanted if image_state(engine, *target) != "ready"]
    if unready:
        # Late: builds are rare, and what they need is not.
        from rpent_box.launch.build import build_images

        build_images(unready, say=say, environ=_environ(config))


def _find_image(target: Target, launcher: Launcher, say: Say) -> str:
    image = image_name(*target)
    engine = _engine(launcher)
    state = "ready" if engine is None else image_state(engine, *target)
    if state == "missing":
        raise ImageMissing(
            f"the image {image} is not built",
            hint=f"Build it: {target.command}. Without containers: --launcher process",
        )
    if state == "stale":
        say("the image is older than this checkout: --build makes it anew")
    return image


def image_ids(launcher: Launcher, programs: list[Program]) -> dict[str, str]:
    """Return role → `NAME sha256:…`, the image and its id, of what ran in containers.

    Empty for processes.
    """
    engine = _engine(launcher)
    if engine is None:
        return {}
    return {
        program.role: f"{program.image} {image_id(engine, program.image)}" for program in programs
    }


def _engine(launcher: Launcher) -> Engine | None:
    if launcher.name != "docker":
        return None
    # Late: the Docker SDK is slow to import, and useless without an engine.
    from rpent_box.launch.docker import DockerLauncher

    return launcher.engine if isinstance(launcher, DockerLauncher) else None


def _environ(config: ProgramsConfig) -> dict[str, str]:
    return dict(os.environ) if config.build_environ is None else config.build_environ
