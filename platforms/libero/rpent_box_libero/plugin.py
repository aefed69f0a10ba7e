# SPDX-License-Identifier: Apache-2.0
"""What is known about LIBERO without its simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.sim.platform import Platform, PlatformPlugin
from rpent_box_libero.observation import CAMERA_ROLES, PROPRIO_SCHEMA
from rpent_box_libero.sentence import Sentence
from rpent_box_libero.suites import SUITES

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


def platform_meta(options: LiberoOptions) -> PlatformMeta:
    """Return what a simulator with these options shows and how it is moved."""
    return PlatformMeta(
        name="libero",
        controls=(control_spec(LIBERO_OSC_DELTA),),
        camera_roles=tuple(CAMERA_ROLES.values()),
        image_size=(options.image_size, options.image_size),
        proprio_schema=PROPRIO_SCHEMA,
    )


def open_platform(options: LiberoOptions) -> Platform:
    """Import the simulator. Raises `SimulatorError` when it cannot be imported or drawn with."""
    from rpent_box_libero.platform import LiberoPlatform

    return LiberoPlatform.open(options)


def check_platform(platform: LiberoPlatform) -> list[str]:
    """Return what differs between `platform` and the recorded scene."""
    from rpent_box_libero.golden import check_golden

    return [f"{finding.part}: {finding.message}" for finding in check_golden(platform)]


PLATFORM = PlatformPlugin(
    name="libero",
    summary="LIBERO: a Franka arm on a table, 5 suites, 130 tasks, MuJoCo",
    meta=platform_meta(LiberoOptions()),
    suites=SUITES,
    default_suite="libero_spatial",
    options=LiberoOptions,
    open=open_platform,
    check=check_platform,
    python="3.11",
    environment={"MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "osmesa"},
    system_packages=("libosmesa6",),
    licence="MIT (LIBERO, robosuite), Apache-2.0 (MuJoCo), CC BY 4.0 (LIBERO's data)",
    memory="1.5 GB",
)
