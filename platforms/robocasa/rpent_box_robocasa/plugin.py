# SPDX-License-Identifier: Apache-2.0
"""What is known about RoboCasa without its simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.spaces import ROBOCASA_12
from rpent_box.sim.platform import Platform, PlatformPlugin, Scene
from rpent_box_robocasa.observation import PROPRIO_SCHEMA
from rpent_box_robocasa.roles import VIEWS
from rpent_box_robocasa.suites import SUITES

if TYPE_CHECKING:
    from rpent_box_robocasa.platform import RobocasaPlatform


class RobocasaOptions(Struct, frozen=True, kw_only=True):
    """Options of the simulator."""

    assets_path: Annotated[
        str,
        Meta(
            description="folder of RoboCasa's meshes and textures, with the package's own files",
            extra={"path": True},
        ),
    ] = ""
    split: Annotated[
        Literal["target", "pretrain"],
        Meta(
            description="which kitchens and objects: the 10 target kitchens, or the 2,500 of "
            "pretraining"
        ),
    ] = "target"
    layout: Annotated[
        int, Meta(description="only kitchens of this layout; 0: any", ge=0, le=60)
    ] = 0
    style: Annotated[int, Meta(description="only kitchens of this style; 0: any", ge=0, le=60)] = 0
    image_size: Annotated[
        int, Meta(description="height and width of each camera in pixels", ge=16, le=1024)
    ] = 256


def platform_meta(options: RobocasaOptions) -> PlatformMeta:
    """Return what a simulator with these options shows and how it is moved."""
    return PlatformMeta(
        name="robocasa",
        controls=(control_spec(ROBOCASA_12),),
        camera_roles=tuple(VIEWS),
        image_size=(options.image_size, options.image_size),
        proprio_schema=PROPRIO_SCHEMA,
    )


def open_platform(options: RobocasaOptions) -> Platform:
    """Import the simulator. Raises `SimulatorError` when it cannot be imported or drawn with."""
    from rpent_box_robocasa.platform import RobocasaPlatform

    return RobocasaPlatform.open(options)


def check_platform(platform: RobocasaPlatform) -> list[str]:
    """Return what differs between this simulator and the recorded scene. Needs no assets."""
    from rpent_box_robocasa.golden import check_golden

    return [str(finding) for finding in check_golden(platform)]


def require_assets(options: RobocasaOptions) -> None:
    """Raise `AssetsMissing` unless the folder that `options` name is there and whole."""
    from rpent_box_robocasa.assets import require

    require(options.assets_path)


def require_scenes(options: RobocasaOptions, scenes: Sequence[Scene]) -> None:
    """Raise `UnknownName` for an initial state that has no number here."""
    from rpent_box_robocasa.seeds import scene_seed

    for scene in scenes:
        scene_seed(scene)


PLATFORM = PlatformPlugin(
    name="robocasa",
    summary="RoboCasa365: a Franka arm on a mobile base in kitchens, 317 tasks, MuJoCo",
    meta=platform_meta(RobocasaOptions()),
    suites=SUITES,
    default_suite="atomic_seen",
    options=RobocasaOptions,
    open=open_platform,
    require=require_assets,
    require_scenes=require_scenes,
    env_fallbacks={"ROBOCASA_ASSETS_PATH": "assets_path"},
    check=check_platform,
    python="3.11",
    environment={"MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "osmesa"},
    system_packages=("libosmesa6",),
    licence="MIT (RoboCasa, robosuite), Apache-2.0 (MuJoCo); the assets have licences of their own",
    memory="1.3 GB and the meshes",
)
