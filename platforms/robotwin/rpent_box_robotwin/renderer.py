# SPDX-License-Identifier: Apache-2.0
"""What draws, and whether with rays. Import this module inside `prepared_process`.

RoboTwin asks for ray tracing in every scene: 32 rays per pixel and a denoiser. A GPU does that in
milliseconds; Mesa's software Vulkan offers it as well, and needs minutes per picture. So on a
software device the request is kept from SAPIEN, which then rasterises.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import sapien

from rpent_box.errors import BadOption, SimulatorError

_log = logging.getLogger("rpent_box_robotwin")

RayTracing = Literal["auto", "on", "off"]

_SOFTWARE = ("llvmpipe", "lavapipe", "swiftshader")
_RASTER, _RAYS = "default", "rt"
"""SAPIEN's sets of shaders; RoboTwin asks for the second one."""
_HINT = (
    "For software rendering install Mesa's lavapipe, version 25 or newer (Debian 12 has it in its "
    "backports): apt-get install libvulkan1 mesa-vulkan-drivers. In a container, a GPU also needs "
    "NVIDIA's graphics capability. VK_ICD_FILENAMES, when set, must name a driver that is there."
)


class Renderer:
    """The device that SAPIEN chose, kept from scene to scene."""

    def __init__(self, system: sapien.render.RenderSystem, *, rays: bool) -> None:
        # SAPIEN lets go of its device, and of the shaders that it compiled for it, with the last
        # scene that uses them. Held here, a new scene is drawn at once, and not after 6 s of CPU.
        self._system: sapien.render.RenderSystem | None = system
        self.device = str(system.device.name)
        """Its own name, e.g. `llvmpipe (LLVM 19.1.7, 256 bits)`."""
        self.software = is_software(self.device)
        self.ray_tracing = rays

    def __str__(self) -> str:
        kind = "software, " if self.software else ""
        return f"sapien: {self.device}, {kind}{'' if self.ray_tracing else 'no '}ray tracing"

    @contextmanager
    def in_charge(self) -> Iterator[None]:
        """Decide, for the scenes that are built inside, whether RoboTwin gets its ray tracing."""
        if self.ray_tracing:
            yield
            return
        asked = sapien.render.set_camera_shader_dir
        before = sapien.render.get_camera_shader_dir()
        asked(_RASTER)
        sapien.render.set_camera_shader_dir = _keep_rasterising
        try:
            yield
        finally:
            sapien.render.set_camera_shader_dir = asked
            asked(before)

    def forget_meshes(self) -> None:
        """Free the meshes that SAPIEN keeps for later scenes, and that none is drawn with now."""
        sapien.render.clear_cache()

    def close(self) -> None:
        """Let go of the device and of every mesh. May be called twice."""
        if self._system is not None:
            self.forget_meshes()
        self._system = None


def is_software(device: str) -> bool:
    """Tell whether a Vulkan device of this name draws on the CPU."""
    return any(name in device.lower() for name in _SOFTWARE)


def find_renderer(ray_tracing: RayTracing) -> Renderer:
    """Return the device that scenes will be drawn on, after drawing a picture on it.

    The first picture compiles the shaders, seconds of work, so it is better drawn now. Raises
    `SimulatorError` when there is no device, `BadOption` for ray tracing in software.
    """
    # As RoboTwin does, and before anything is made to draw with: later it would change nothing.
    sapien.render.set_global_config(max_num_materials=50000, max_num_textures=50000)
    try:
        system = sapien.render.RenderSystem()
    except RuntimeError as error:
        raise SimulatorError(f"SAPIEN cannot draw here: {error}", hint=_HINT) from error
    device = str(system.device.name)
    software = is_software(device)
    if software and ray_tracing == "on":
        raise BadOption(
            f"ray_tracing is on, but the only Vulkan device is {device}, which draws in software "
            "and would need minutes for each picture",
            hint="Leave it at auto, or give the simulator a GPU.",
        )
    renderer = Renderer(system, rays=not software and ray_tracing != "off")
    if software:
        _log.warning(
            "robotwin is drawn in software by %s: about a second per camera, and rasterised, where "
            "its demonstrations are ray traced. Success rates on a GPU may differ.",
            device,
        )
    _draw_something(renderer)
    return renderer


def _keep_rasterising(_shaders: str) -> None:
    """Stand in for the choice of shaders while a scene asks for its own."""


def _draw_something(renderer: Renderer) -> None:
    with renderer.in_charge():
        sapien.render.set_camera_shader_dir(_RAYS)  # in vain where it is to rasterise
        scene = sapien.Scene()
        scene.set_ambient_light([0.5, 0.5, 0.5])
        scene.add_directional_light([0, 0.5, -1], [0.5, 0.5, 0.5], shadow=True)
        scene.add_point_light([1, 0, 1.8], [1, 1, 1], shadow=True)
        box = scene.create_actor_builder()
        red = sapien.render.RenderMaterial(base_color=[1, 0, 0, 1])
        box.add_box_visual(half_size=[0.2, 0.2, 0.2], material=red)
        box.set_initial_pose(sapien.Pose([1.0, 0, 0]))
        box.build_kinematic(name="box")
        camera = scene.add_camera("camera", 32, 32, fovy=1.0, near=0.1, far=10)
        scene.update_render()
        try:
            camera.take_picture()
            picture = camera.get_picture("Color")
        except RuntimeError as error:
            raise SimulatorError(f"{renderer} draws nothing: {error}", hint=_HINT) from error
    if not np.ptp(picture[..., :3]) > 0:
        raise SimulatorError(f"{renderer} draws empty pictures", hint=_HINT)
