# SPDX-License-Identifier: Apache-2.0
"""Between RoboTwin and LingBot-VLA: names, an order of columns, and unit quaternions.

Pixels are sent as the platform shows them; the server resizes and normalises. Both directions have
the same sixteen columns: position [3] in metres and quaternion wxyz [4] of the left hand in the
world, its gripper (1 = open, 0 = closed), and the same of the right hand.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.adapter import Adapter, require_output, to_actions
from rpent_box.backends.lingbot.greeting import CAMERA_ORDER
from rpent_box.contracts.observation import Actions, Observation
from rpent_box.contracts.spaces import ROBOTWIN_EEF16
from rpent_box.errors import BadActions

CAMERA_ROLES = ("head", "left_wrist", "right_wrist")
"""In the order of the server's cameras."""
STATE = {"left_eef_pose": 7, "left_gripper": 1, "right_eef_pose": 7, "right_gripper": 1}
"""In the order of the server's state. A pose is xyz and quaternion wxyz, RoboTwin's `endpose`."""
COLUMNS = sum(STATE.values())
QUATERNIONS = (slice(3, 7), slice(11, 15))
SHORTEST_QUATERNION = 1e-3

Request: TypeAlias = dict[str, Any]


def encode_robotwin(observation: Observation, execute_steps: int) -> Request:
    """Return the frame's content: three images as they are, float32 [16], the instruction."""
    request: Request = {
        f"observation.images.{camera}": observation.images[role]
        for camera, role in zip(CAMERA_ORDER, CAMERA_ROLES, strict=True)
    }
    parts = [observation.proprio[name] for name in STATE]
    request["observation.state"] = np.concatenate(parts).astype(np.float32)
    request["task"] = observation.instruction
    return request


def decode_robotwin(output: NDArray[Any], execute_steps: int) -> Actions:
    """Return float32 [execute_steps, 16], its quaternions made unit ones.

    The whole answer is checked before it is cut. Raises `BadActions` for one that is short, of
    another width or not finite, and for a quaternion that is no rotation.
    """
    whole = require_output(output, (execute_steps, COLUMNS), backend="lingbot")
    actions = to_actions(whole, backend="lingbot")[:execute_steps].astype(np.float64)
    for columns in QUATERNIONS:
        length = np.linalg.norm(actions[:, columns], axis=1, keepdims=True)
        if (length < SHORTEST_QUATERNION).any():
            row = int(np.argmin(length))
            raise BadActions(
                f"lingbot's model returned the quaternion {actions[row, columns].tolist()} in step "
                f"{row}, columns {columns.start} to {columns.stop - 1}, which is no rotation; "
                "nothing was executed",
                hint="Do the statistics belong to these weights? See: rpent-box checkpoint inspect",
            )
        actions[:, columns] /= length
    return to_actions(actions, backend="lingbot")


ADAPTERS: dict[str, Adapter[int, Request]] = {
    "robotwin": Adapter(
        space=ROBOTWIN_EEF16,
        camera_roles=CAMERA_ROLES,
        proprio_schema=dict(STATE),
        encode=encode_robotwin,
        decode=decode_robotwin,
    ),
}
"""What both directions share is how many steps are executed."""
