# SPDX-License-Identifier: Apache-2.0
"""The action spaces that are known by name."""

from __future__ import annotations

import math

from rpent_box.contracts.control import ActionField, ActionSpace


def _field(name: str, unit: str, low: float = -1.0, high: float = 1.0) -> ActionField:
    return ActionField(name=name, unit=unit, low=low, high=high)


def _arm_pose(side: str) -> tuple[ActionField, ...]:
    position = [_field(f"{side}_{axis}", "m", -math.inf, math.inf) for axis in "xyz"]
    rotation = [_field(f"{side}_quaternion_{axis}", "1") for axis in "wxyz"]
    return (*position, *rotation, _field(f"{side}_gripper", "1 = open, 0 = closed", 0.0, 1.0))


def _aloha_joint(column: int) -> ActionField:
    name = f"joint_action_{column}"
    if column % 7 == 6:
        return _field(name, "1 = open, 0 = closed", 0.0, 1.0)
    return _field(name, "rad", -2 * math.pi, 2 * math.pi)


LIBERO_OSC_DELTA = ActionSpace(
    id="libero.osc_pose.delta.v1",
    embodiment="libero_7d",
    action_type=None,
    fields=(
        _field("delta_x", "0.05 m"),
        _field("delta_y", "0.05 m"),
        _field("delta_z", "0.05 m"),
        _field("delta_axis_angle_x", "0.5 rad"),
        _field("delta_axis_angle_y", "0.5 rad"),
        _field("delta_axis_angle_z", "0.5 rad"),
        _field("gripper", "-1 = open, +1 = close"),
    ),
    frame="robot base, relative to the measured pose at the start of the control step",
    rotation="axis-angle, applied on the left",
    gripper="-1 = open, +1 = close",
    control_hz=20.0,
)

ROBOTWIN_QPOS14 = ActionSpace(
    id="robotwin.joint_action.qpos14.v1",
    embodiment="robotwin_qpos14",
    action_type="qpos",
    fields=tuple(_aloha_joint(column) for column in range(14)),
    frame="joint space: left arm 6, left gripper, right arm 6, right gripper",
    rotation="none",
    gripper="1 = open, 0 = closed",
    control_hz=15.0,
)

ROBOTWIN_EEF16 = ActionSpace(
    id="robotwin.eef_pose.absolute16.v1",
    embodiment="robotwin_eef16",
    action_type="ee",
    fields=(*_arm_pose("left"), *_arm_pose("right")),
    frame="world",
    rotation="unit quaternion wxyz",
    gripper="1 = open, 0 = closed",
    control_hz=15.0,
)

ROBOCASA_12 = ActionSpace(
    id="robocasa.osc_pose_base.delta12.v1",
    embodiment="robocasa_12d",
    action_type=None,
    fields=(
        _field("end_effector_position_x", "0.05 m"),
        _field("end_effector_position_y", "0.05 m"),
        _field("end_effector_position_z", "0.05 m"),
        _field("end_effector_rotation_x", "0.5 rad"),
        _field("end_effector_rotation_y", "0.5 rad"),
        _field("end_effector_rotation_z", "0.5 rad"),
        _field("gripper_close", "-1 = open, +1 = close"),
        _field("base_motion_forward", "1 m/s"),
        _field("base_motion_side", "1 m/s to the left"),
        _field("base_motion_yaw", "1.5 rad/s counterclockwise"),
        _field("base_motion_torso", "0.05 m upwards"),
        # The base and the torso move in either mode; it says what the arm's step is added to.
        _field("control_mode", "-1 = arm: to the measured pose, +1 = base: to the last target"),
    ),
    frame="robot base, as it is turned now",
    rotation="axis-angle, applied on the left",
    gripper="-1 = open, +1 = close",
    control_hz=20.0,
)

KNOWN_SPACES: dict[str, ActionSpace] = {
    space.id: space for space in (LIBERO_OSC_DELTA, ROBOTWIN_QPOS14, ROBOTWIN_EEF16, ROBOCASA_12)
}
