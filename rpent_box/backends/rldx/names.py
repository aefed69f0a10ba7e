# SPDX-License-Identifier: Apache-2.0
"""RoboCasa's cameras, proprio and action columns, as we and as RLDX checkpoints call them."""

from __future__ import annotations

CAMERAS = {
    "robot0_agentview_left": "agentview_left",
    "robot0_agentview_right": "agentview_right",
    "robot0_eye_in_hand": "wrist",
    "left_view": "agentview_left",
    "right_view": "agentview_right",
    "wrist_view": "wrist",
}
"""A checkpoint's name → our camera role.

The first three are those of RoboCasa365 (rldx/configs/data/robocasa365_config.py), the others those
of the older RoboCasa kitchens (robocasa_config.py): the same three cameras.
"""

IMAGE_SIZE = 256
"""Height and width of each frame in the training data (robocasa/wrappers/gym_wrapper.py)."""

PROPRIO = {
    "gripper_qpos": ("gripper_qpos", 2),
    "base_position": ("base_position", 3),
    "base_rotation": ("base_quaternion_xyzw", 4),
    "end_effector_position_relative": ("base_to_eef_position", 3),
    "end_effector_rotation_relative": ("base_to_eef_quaternion_xyzw", 4),
}
"""A checkpoint's name → our name and its length. Metres; quaternions in the order x, y, z, w.

They are robosuite's `robot0_gripper_qpos`, `robot0_base_pos`, `robot0_base_quat`,
`robot0_base_to_eef_pos` and `robot0_base_to_eef_quat`, unchanged.
"""

COLUMNS = {
    "end_effector_position": slice(0, 3),
    "end_effector_rotation": slice(3, 6),
    "gripper_close": slice(6, 7),
    "base_motion": slice(7, 11),
    "control_mode": slice(11, 12),
}
"""A checkpoint's name → its columns in our action space (robocasa/utils/lerobot_utils.py)."""

GRIPPER = 6
CONTROL_MODE = 11


def past_role(role: str, steps: int) -> str:
    """Return what the frame of `role`, as it was `steps` control steps ago, is called."""
    return f"{role}_{steps}_steps_ago" if steps else role
