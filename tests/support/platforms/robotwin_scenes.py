# SPDX-License-Identifier: Apache-2.0
"""What several of RoboTwin's tests build: scenes without pictures, and a table with clutter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures

if TYPE_CHECKING:
    from rpent_box_robotwin.environment import RobotwinEnvironment

HAND = ("left_eef_pose", "left_gripper", "right_eef_pose", "right_gripper")
FIRST = {"left": 0, "right": 8}
"""Arm → its first column among the sixteen of a hand command."""
BOX = """<?xml version="1.0"?>
<robot name="box"><link name="box">
  <visual><geometry><box size="0.06 0.06 0.06"/></geometry></visual>
  <collision><geometry><box size="0.06 0.06 0.06"/></geometry></collision>
  <inertial><mass value="0.1"/>
    <inertia ixx="1e-4" iyy="1e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/></inertial>
</link></robot>
"""


def hands(environment: RobotwinEnvironment) -> NDArray[np.float64]:
    """Return where both hands are and how open, as a command [16]."""
    state = environment.robot_state()
    return np.concatenate([np.atleast_1d(state[name]) for name in HAND])


def cluttered_assets(folder: Path, robot: Path) -> Path:
    """Make assets for `demo_randomized` below `folder`: `robot`'s arms, plain textures, boxes."""
    assets = folder / "assets"
    unseen = assets / "background_texture" / "unseen"
    unseen.mkdir(parents=True)
    (assets / "embodiments").symlink_to(robot / "assets" / "embodiments")
    for number in range(4):
        colours = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Pictures.fromarray(colours).resize((64, 64)).save(unseen / f"{number}.png")
    models = [f"{number}" for number in range(3)]
    for model in models:
        place = assets / "objects" / "objaverse" / "parcel" / model
        place.mkdir(parents=True)
        (place / "model.urdf").write_text(BOX, encoding="utf-8")
    named = {f"parcel_{model}" for model in models}
    listing = {
        "item_names": ["parcel"],
        "list_of_items": {"parcel": models},
        "z_max": dict.fromkeys(named, 0.04),
        "radius": dict.fromkeys(named, 0.045),
        "z_offset": dict.fromkeys(named, -0.031),
    }
    objects = assets / "objects"
    (objects / "objaverse" / "list.json").write_text(json.dumps(listing), encoding="utf-8")
    (objects / "same.json").write_text("{}", encoding="utf-8")
    return folder
