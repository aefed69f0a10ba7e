# SPDX-License-Identifier: Apache-2.0
"""What is known about LIBERO and LIBERO-Pro without their simulator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.sim.platform import Platform, PlatformPlugin, Scene
from rpent_box_libero.observation import CAMERA_ROLES, PROPRIO_SCHEMA
from rpent_box_libero.sentence import Sentence, check_sentence
from rpent_box_libero.suites import LIBERO, LIBERO_PRO, PRO_SUITES, SUITES

if TYPE_CHECKING:
    from rpent_box_libero.platform import LiberoPlatform


class LiberoOptions(Struct, frozen=True, kw_only=True):
    """Options of the simulator."""

    image_size: Annotated[
        int, Meta(description="height and width of each camera in pixels", ge=16, le=1024)
    ] = 256
    sentence: Annotated[
        Sentence,
        Meta(
            description="what the model is told: the scene's own sentence, or the one in the "
            "task's name, which LIBERO's demonstrations are labelled with"
        ),
    ] = "scene"


def platform_meta(options: LiberoOptions, *, name: str = LIBERO) -> PlatformMeta:
    """Return what a simulator with these options shows and how it is moved."""
    return PlatformMeta(
        name=name,
        controls=(control_spec(LIBERO_OSC_DELTA),),
        camera_roles=tuple(CAMERA_ROLES.values()),
        image_size=(options.image_size, options.image_size),
        proprio_schema=PROPRIO_SCHEMA,
    )


def open_platform(options: LiberoOptions, *, name: str = LIBERO) -> Platform:
    """Import the simulator. Raises `SimulatorError` when it cannot be imported or drawn with."""
    from rpent_box_libero.platform import LiberoPlatform

    return LiberoPlatform.open(options, name=name)


def require_scenes(options: LiberoOptions, scenes: Sequence[Scene]) -> None:
    """Raise `BadOption` on the host where a task's name does not say what its scene asks for."""
    for scene in scenes:
        check_sentence(scene.suite, options.sentence)


def check_platform(platform: LiberoPlatform) -> list[str]:
    """Return what differs between `platform` and the recorded scene."""
    from rpent_box_libero.golden import check_golden

    return [str(finding) for finding in check_golden(platform)]


PLATFORM = PlatformPlugin(
    name=LIBERO,
    summary="LIBERO: a Franka arm on a table, 5 suites, 130 tasks, MuJoCo",
    meta=platform_meta(LiberoOptions()),
    suites=SUITES,
    default_suite="libero_spatial",
    options=LiberoOptions,
    open=open_platform,
    require_scenes=require_scenes,
    check=check_platform,
    python="3.11",
    environment={"MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "osmesa"},
    system_packages=("libosmesa6",),
    licence="MIT (LIBERO, robosuite), Apache-2.0 (MuJoCo), CC BY 4.0 (LIBERO's data)",
    memory="1.5 GB",
)

PRO_PLATFORM = replace(
    PLATFORM,
    name=LIBERO_PRO,
    summary="LIBERO-Pro: LIBERO's tasks with other words, things, places and goals; 28 suites",
    meta=platform_meta(LiberoOptions(), name=LIBERO_PRO),
    suites=PRO_SUITES,
    default_suite="libero_spatial_lan",
    open=partial(open_platform, name=LIBERO_PRO),
    recipe="libero",
    licence="MIT (LIBERO, LIBERO-Pro, robosuite), Apache-2.0 (MuJoCo), CC BY 4.0 (LIBERO's data)",
)
"""The same simulator, robot, cameras and options, and so the same environment and image."""
