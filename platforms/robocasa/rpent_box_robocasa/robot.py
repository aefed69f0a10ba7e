# SPDX-License-Identifier: Apache-2.0
"""RoboCasa's robot, a Franka arm on an Omron base, as robosuite is asked for it.

Import this module inside `prepared_process`.
"""

from __future__ import annotations

from typing import Any

from robosuite.controllers import load_composite_controller_config

from rpent_box.errors import SimulatorError
from rpent_box_robocasa.control import PARTS
from rpent_box_robocasa.observation import CAMERA_ROLES

ROBOT = "PandaOmron"


def robot_arguments(image_size: int) -> dict[str, Any]:
    """Return the arguments of an environment with this robot, as RoboCasa's own loop has them."""
    return {
        "robots": ROBOT,
        "controller_configs": load_composite_controller_config(controller=None, robot=ROBOT),
        "camera_names": list(CAMERA_ROLES),
        "camera_heights": image_size,
        "camera_widths": image_size,
        "has_renderer": False,
        "has_offscreen_renderer": True,
        "ignore_done": True,  # who plays counts the steps
        "use_object_obs": True,
        "use_camera_obs": True,
        "camera_depths": False,
    }


def check_columns(environment: Any) -> None:  # noqa: ANN401 - robosuite is untyped
    """Raise `SimulatorError` unless the controllers read the columns that we send them."""
    found = dict(environment.robots[0].composite_controller._action_split_indexes)
    if list(found.items()) != list(PARTS.items()):
        raise SimulatorError(
            f"robosuite's controllers read the columns {found}; wanted {PARTS}",
            hint="Install the pinned simulator again: rpent-box build robocasa",
        )
