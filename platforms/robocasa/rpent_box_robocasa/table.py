# SPDX-License-Identifier: Apache-2.0
"""A scene that needs no assets: robosuite's cube on a table, with RoboCasa's robot and cameras.

Physics, controllers and drawing are those of the kitchens, so it is what an installation is checked
with. Import this module inside `prepared_process`.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
from robocasa.utils.camera_utils import get_robot_cam_configs
from robosuite.environments.manipulation.lift import Lift
from robosuite.utils.mjcf_utils import array_to_string, find_elements

from rpent_box_robocasa.gaps import TURNING_BASE
from rpent_box_robocasa.moments import Moments
from rpent_box_robocasa.observation import CAMERA_ROLES
from rpent_box_robocasa.robot import ROBOT, robot_arguments
from rpent_box_robocasa.scene import built_at_reset

SETTLE_STEPS = 10
INSTRUCTION = "lift the red cube from the table"


class CubeOnTable(Lift):  # type: ignore[misc]  # robosuite is untyped
    """Robosuite's Lift, seen and moved as a kitchen is."""

    def __init__(self, **arguments: Any) -> None:  # noqa: ANN401
        config = arguments["controller_configs"]
        config["composite_controller_specific_configs"] = {
            "body_part_ordering": ["right", "right_gripper", "base", "torso"]
        }
        config["body_parts"]["base"]["type"] = TURNING_BASE
        super().__init__(**arguments)

    def _load_model(self) -> None:
        """Place the cube by the generator of now, as RoboCasa places things."""
        self.placement_initializer = None
        super()._load_model()

    def _reset_internal(self) -> None:
        """Let things settle for ten control steps at rest, as RoboCasa does.

        It also gives the arm its first target: until then robosuite holds one in the world's frame
        and reads it in the robot's.
        """
        super()._reset_internal()
        rest, is_first = np.zeros(self.action_dim), True
        for _ in range(SETTLE_STEPS * int(self.control_timestep / self.model_timestep)):
            self.sim.step1()
            self._pre_action(rest, is_first)
            self.sim.step2()
            is_first = False

    def _reset_observables(self) -> None:
        """Make the sensors anew at each reset, as RoboCasa does: their timers start alike."""
        self._observables = self._setup_observables()

    def edit_model_xml(self, xml_str: str) -> str:
        """Give the robot the cameras that RoboCasa gives it."""
        root = ElementTree.fromstring(super().edit_model_xml(xml_str))
        for name, camera in get_robot_cam_configs(ROBOT).items():
            if name in CAMERA_ROLES:
                _place_camera(root, name, camera)
        return ElementTree.tostring(root, encoding="unicode")

    def get_ep_meta(self) -> dict[str, Any]:
        return {**super().get_ep_meta(), "lang": INSTRUCTION}


def make_table(image_size: int, moments: Moments) -> Any:  # noqa: ANN401
    """Return the environment, in which nothing is built before the first reset."""
    return built_at_reset(CubeOnTable, moments)(**robot_arguments(image_size))


def _place_camera(root: Any, name: str, camera: dict[str, Any]) -> None:  # noqa: ANN401
    parent = find_elements(root, "body", {"name": camera["parent_body"]})
    element = find_elements(parent, "camera", {"name": name})
    if element is None:
        element = ElementTree.SubElement(parent, "camera", {"name": name, "mode": "fixed"})
    element.set("pos", array_to_string(camera["pos"]))
    element.set("quat", array_to_string(camera["quat"]))
    for attribute, value in camera.get("camera_attribs", {}).items():
        element.set(attribute, value)
