# SPDX-License-Identifier: Apache-2.0
"""A scene of SAPIEN's own shapes, built the way RoboTwin builds its table: no assets are needed.

A block slides to a stop, another is dropped a little tilted, and a driven joint swings to its
target. With RoboTwin's time step, friction and lights, whatever changes how its tasks settle or
look also changes this. Nothing tumbles: that would make the last digits of another processor's
arithmetic into centimetres.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import sapien
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image

TIME_STEP_S = 1 / 250
FRICTION = 0.5
RESTITUTION = 0.0
STEPS = 250
EVERY = 25
"""Time steps between two recorded states."""
IMAGE_SIZE = (240, 320)
_TABLE_HEIGHT_M = 0.74
_HALF_BLOCK_M = 0.025
_TILTED = (0.9962, 0.0523, 0.0698, 0.0)
_EYE = (-0.65, 0.0, 1.15)
_LOOKS_DOWN = (0.9659258, 0.0, 0.258819, 0.0)
"""30 degrees about y: SAPIEN's cameras look along x, with z up."""


def play(friction: float = FRICTION) -> tuple[NDArray[np.float64], Image]:
    """Return the states on the way, float64 [STEPS / EVERY, 15], and the last frame.

    A state is position in metres and quaternion w, x, y, z of both blocks in the world, and the
    joint's angle in radians. The frame is uint8 RGB [240, 320, 3], rasterised.
    """
    with _rasterised():
        scene = _lit_scene(friction)
        blocks = [
            _block(scene, (-0.1, 0.0, 0.765), (1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
            _block(scene, (0.05, 0.15, 0.80), _TILTED, (0.0, 1.0, 0.0)),
        ]
        _push(blocks[0])
        arm = _driven_arm(scene)
        states = []
        for step in range(1, STEPS + 1):
            scene.step()
            if step % EVERY == 0:
                states.append(_state(blocks, arm))
        return np.array(states), _draw(scene)


@contextmanager
def _rasterised() -> Iterator[None]:
    """Draw without rays whatever the platform draws with: rays leave noise."""
    before = sapien.render.get_camera_shader_dir()
    sapien.render.set_camera_shader_dir("default")
    try:
        yield
    finally:
        sapien.render.set_camera_shader_dir(before)


def _lit_scene(friction: float) -> sapien.Scene:
    scene = sapien.Scene()
    scene.set_timestep(TIME_STEP_S)
    material = scene.create_physical_material(friction, friction, RESTITUTION)
    scene.default_physical_material = material
    scene.add_ground(0)
    scene.set_ambient_light([0.5, 0.5, 0.5])
    scene.add_directional_light([0, 0.5, -1], [0.5, 0.5, 0.5], shadow=True)
    for side in (-1, 1):
        scene.add_point_light([side, 0, 1.8], [1, 1, 1], shadow=True)
    table = scene.create_actor_builder()
    half_size = [0.6, 0.35, 0.025]
    table.add_box_collision(half_size=half_size, material=material)
    table.add_box_visual(half_size=half_size, material=_paint((0.9, 0.85, 0.8)))
    table.set_initial_pose(sapien.Pose([0, 0, _TABLE_HEIGHT_M - half_size[2]]))
    table.build_static(name="table")
    return scene


def _block(
    scene: sapien.Scene,
    position: tuple[float, float, float],
    quaternion_wxyz: tuple[float, float, float, float],
    colour: tuple[float, float, float],
) -> sapien.Entity:
    builder = scene.create_actor_builder()
    half_size = [_HALF_BLOCK_M] * 3
    builder.add_box_collision(half_size=half_size, material=scene.default_physical_material)
    builder.add_box_visual(half_size=half_size, material=_paint(colour))
    builder.set_initial_pose(sapien.Pose(position, quaternion_wxyz))
    return builder.build(name="block")


def _push(block: sapien.Entity) -> None:
    """Give `block` 0.6 m/s along the table, and a spin."""
    body = block.find_component_by_type(sapien.physx.PhysxRigidDynamicComponent)
    body.set_linear_velocity([0.5, 0.33, 0.0])
    body.set_angular_velocity([0.0, 0.0, 3.0])


def _driven_arm(scene: sapien.Scene) -> sapien.physx.PhysxArticulation:
    """Return a lever on a post, driven to one radian with a gripper's stiffness and damping."""
    builder = scene.create_articulation_builder()
    post = builder.create_link_builder()
    post.set_name("post")
    post.add_box_collision(half_size=[0.02, 0.02, 0.05])
    post.add_box_visual(half_size=[0.02, 0.02, 0.05], material=_paint((0.3, 0.3, 0.3)))
    lever = builder.create_link_builder(post)
    lever.set_name("lever")
    lever.set_joint_name("hinge")
    lever.set_joint_properties(
        "revolute",
        limits=[[-2.0, 2.0]],
        pose_in_parent=sapien.Pose([0, 0, 0.05]),
        pose_in_child=sapien.Pose([0, -0.1, 0]),
    )
    lever.add_box_collision(half_size=[0.015, 0.1, 0.015])
    lever.add_box_visual(half_size=[0.015, 0.1, 0.015], material=_paint((0.2, 0.3, 0.8)))
    arm = builder.build(fix_root_link=True)
    arm.set_root_pose(sapien.Pose([0.12, -0.12, _TABLE_HEIGHT_M + 0.05]))
    (hinge,) = arm.get_active_joints()
    hinge.set_drive_properties(stiffness=1000, damping=200)
    hinge.set_drive_target(1.0)
    return arm


def _paint(colour: tuple[float, float, float]) -> sapien.render.RenderMaterial:
    return sapien.render.RenderMaterial(base_color=[*colour, 1.0])


def _state(blocks: list[sapien.Entity], arm: sapien.physx.PhysxArticulation) -> NDArray[np.float64]:
    poses = [part for block in blocks for part in (block.get_pose().p, block.get_pose().q)]
    return np.concatenate([*poses, arm.get_qpos()]).astype(np.float64)


def _draw(scene: sapien.Scene) -> Image:
    height, width = IMAGE_SIZE
    camera = scene.add_camera(
        name="head", width=width, height=height, fovy=np.deg2rad(37), near=0.1, far=100
    )
    camera.entity.set_pose(sapien.Pose(_EYE, _LOOKS_DOWN))
    scene.update_render()
    camera.take_picture()
    colour = camera.get_picture("Color")[..., :3]
    return np.ascontiguousarray((colour * 255).clip(0, 255).astype(np.uint8))
