# SPDX-License-Identifier: Apache-2.0
"""Camera roles: those of now, and the frames that each showed some control steps before."""

from __future__ import annotations

from rpent_box_robocasa.observation import CAMERA_ROLES

STEPS_AGO = (6, 4, 2)
"""How far back a model may look, in control steps, the farthest first."""


def past_role(role: str, steps: int) -> str:
    """Return what the frame of `role`, as it was `steps` control steps ago, is called."""
    return f"{role}_{steps}_steps_ago" if steps else role


VIEWS: dict[str, tuple[str, int]] = {
    past_role(role, steps): (camera, steps)
    for steps in (0, *STEPS_AGO)
    for camera, role in CAMERA_ROLES.items()
}
"""Role → RoboCasa's camera, and how many control steps ago; those of now first."""
