# SPDX-License-Identifier: Apache-2.0
"""What is known about RoboTwin without its simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.spaces import ROBOTWIN_EEF16, ROBOTWIN_QPOS14
from rpent_box.sim.platform import Platform, PlatformPlugin, Scene
from rpent_box_robotwin.observation import CAMERA_ROLES, IMAGE_SIZE, PROPRIO_SCHEMA
from rpent_box_robotwin.suites import SUITES

if TYPE_CHECKING:
    from rpent_box_robotwin.platform import RobotwinPlatform


class RobotwinOptions(Struct, frozen=True, kw_only=True):
    """Options of the simulator."""

    assets_path: Annotated[
        str,
        Meta(
            description="the folder that robotwin-download-assets made: meshes and textures",
            extra={"path": True},
        ),
    ] = ""
    language: Annotated[
        str,
        Meta(
            description='a file of lines {"task": …, "seed": …, "instruction": …}: only these '
            "scenes can be played, each with its sentence",
            extra={"path": True},
        ),
    ] = ""
    wording: Annotated[
        Literal["unseen", "seen"],
        Meta(
            description="which of RoboTwin's sentences a scene's is drawn from: those kept for "
            "evaluation, or those that its demonstrations are labelled with"
        ),
    ] = "unseen"
    ray_tracing: Annotated[
        Literal["auto", "on", "off"],
        Meta(description="draw with rays, as RoboTwin's demonstrations are; auto: on a GPU"),
    ] = "auto"


def platform_meta(options: RobotwinOptions) -> PlatformMeta:
    """Return what a simulator with these options shows and how it is moved."""
    return PlatformMeta(
        name="robotwin",
        controls=(control_spec(ROBOTWIN_QPOS14), control_spec(ROBOTWIN_EEF16)),
        camera_roles=CAMERA_ROLES,
        image_size=IMAGE_SIZE,
        proprio_schema=PROPRIO_SCHEMA,
    )


def open_platform(options: RobotwinOptions) -> Platform:
    """Import the simulator. Raises `SimulatorError` when it cannot be imported or drawn with."""
    from rpent_box_robotwin.platform import RobotwinPlatform

    return RobotwinPlatform.open(options)


def require(options: RobotwinOptions) -> None:
    """Check on the host that what `options` name is there and whole.

    Raises `AssetsMissing` for assets, `BadOption` for a list of instructions.
    """
    from rpent_box_robotwin.assets import require_assets
    from rpent_box_robotwin.language import Listed

    if options.language:
        Listed.read(options.language)
    require_assets(options)


def require_scenes(options: RobotwinOptions, scenes: Sequence[Scene]) -> None:
    """Check on the host that each scene has its objects, and its sentence where those are listed.

    Raises `AssetsMissing`, `UnknownName`.
    """
    from rpent_box_robotwin.assets import require_assets, require_task
    from rpent_box_robotwin.language import sentences
    from rpent_box_robotwin.suites import find_suite, task_name

    root, known = require_assets(options), sentences(options)
    found: set[tuple[str, str]] = set()
    for scene in scenes:
        task = task_name(find_suite(scene.suite), scene.task)
        known.require(task, scene.init_state)
        # A run's scenes are mostly of one task, whose files are looked for once.
        if (scene.suite, task) not in found:
            require_task(root, scene.suite, task)
            found.add((scene.suite, task))


def check_platform(platform: RobotwinPlatform) -> list[str]:
    """Return what differs between the simulator and the recorded scene."""
    from rpent_box_robotwin.golden import check_golden

    return [str(finding) for finding in check_golden(platform)]


PLATFORM = PlatformPlugin(
    name="robotwin",
    summary="RoboTwin 2.0: two arms at a table, 50 tasks, clean or randomized, SAPIEN",
    meta=platform_meta(RobotwinOptions()),
    suites=SUITES,
    default_suite="demo_clean",
    options=RobotwinOptions,
    open=open_platform,
    require=require,
    require_scenes=require_scenes,
    env_fallbacks={"ROBOTWIN_ASSETS_PATH": "assets_path"},
    check=check_platform,
    python="3.11",
    system_packages=("libvulkan1", "mesa-vulkan-drivers/bookworm-backports"),
    licence="MIT (RoboTwin, its assets, SAPIEN, mplib)",
    memory="1.4 GB with blocks alone, up to 4 GB (estimate)",
)
