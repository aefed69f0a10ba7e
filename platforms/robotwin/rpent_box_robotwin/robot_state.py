# SPDX-License-Identifier: Apache-2.0
"""What RoboTwin knows of its robot, read without drawing anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SIDES = ("left", "right")


def read(robot: Any) -> dict[str, NDArray[np.float64]]:  # noqa: ANN401 - the runtime has no types
    """Return set-points and measurements, float64, SI units, world frame.

    `qpos_target14` and the grippers are what the controllers are set to; the rest is measured.
    Poses are position and quaternion w, x, y, z: `eef` is the frame that hands are commanded in.
    """
    targets = [getattr(robot, f"get_{side}_arm_jointState")() for side in SIDES]
    real = [getattr(robot, f"get_{side}_arm_real_jointState")()[:-1] for side in SIDES]
    state = {"qpos_target14": np.concatenate(targets), "arm_qpos_real12": np.concatenate(real)}
    for side in SIDES:
        state[f"{side}_eef_pose"] = getattr(robot, f"get_{side}_ee_pose")()
        state[f"{side}_tcp_pose"] = getattr(robot, f"get_{side}_tcp_pose")()
        state[f"{side}_gripper"] = getattr(robot, f"get_{side}_gripper_val")()
    return {name: np.asarray(values, dtype=np.float64) for name, values in state.items()}
