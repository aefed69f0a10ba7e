# SPDX-License-Identifier: Apache-2.0
"""Whether physics and renderer are what they should be: one settled scene, known in advance.

`python -m rpent_box_robocasa.golden` prints what differs and exits 1 when something does; `--write`
records the scene anew, which only a change of the pins justifies.

The scene needs no assets: a table and a cube, with the robot, controllers and cameras of the
kitchens. So the check runs when an image is built, and in `rpent-box doctor` before anything was
downloaded. It is moved a little, too: a controller of another build ends somewhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from rpent_box.errors import SimulatorError
from rpent_box.sim.known_scene import (
    Finding,
    coarse,
    compare_frames,
    compare_states,
    frame_sha256,
)
from rpent_box_robocasa.observation import CAMERA_ROLES
from rpent_box_robocasa.platform import RobocasaPlatform
from rpent_box_robocasa.plugin import RobocasaOptions

SEED = 7
MOTION = np.array([0.5, -0.3, 0.2, 0.1, -0.2, 0.3, 1.0, 0.6, -0.4, 0.8, 0.5, 1.0])
"""One row, repeated: every column of the controllers is in use."""
STEPS = 5
IMAGE_SIZE = 256
STATE_TOLERANCE = 1e-9
"""Metres, radians, and their rates. Other versions of MuJoCo miss it by far."""


class Golden(Struct, frozen=True, kw_only=True):
    """A settled scene and what a motion makes of it, small enough to ship."""

    state: list[float]
    """Time, positions, velocities after settling."""
    moved: list[float]
    """The same after the motion."""
    frames_sha256: dict[str, str]
    """Of the settled scene."""
    coarse_frames: dict[str, list[list[list[int]]]]
    """Camera role → means of 16 x 16 blocks, uint8 [16, 16, 3]."""


def check_golden(platform: RobocasaPlatform) -> list[Finding]:
    """Build the known scene and return what differs; empty when all is well.

    It needs the process that `platform` prepared, and none of its assets; the platform's own scene
    stays as it is. Raises `SimulatorError` when no renderer answers.
    """
    if not platform.renderer:
        raise SimulatorError("robocasa was not opened")
    return compare(read_golden(), measure())


def read_golden() -> Golden:
    """Return the recorded scene."""
    data = files("rpent_box_robocasa").joinpath("golden.json").read_bytes()
    return msgspec.json.decode(data, type=Golden)


def measure() -> Golden:
    """Build the known scene in a prepared process and return what it gives."""
    from rpent_box_robocasa.environment import RobocasaEnvironment
    from rpent_box_robocasa.table import make_table

    environment = RobocasaEnvironment(
        lambda moments: make_table(IMAGE_SIZE, moments), image_size=IMAGE_SIZE
    )
    try:
        environment.reset(SEED)
        state = environment.state().numbers.tolist()
        frames = environment.observe(CAMERA_ROLES.values()).images
        for _ in range(STEPS):
            environment.step(MOTION)
        moved = environment.state().numbers.tolist()
    finally:
        environment.close()
    return Golden(
        state=state,
        moved=moved,
        frames_sha256={role: frame_sha256(frame) for role, frame in sorted(frames.items())},
        coarse_frames={role: coarse(frame).tolist() for role, frame in sorted(frames.items())},
    )


def compare(wanted: Golden, got: Golden) -> list[Finding]:
    """Return what differs between two measurements of the known scene."""
    findings = [
        *compare_states("the settled state", wanted.state, got.state, tolerance=STATE_TOLERANCE),
        *compare_states(
            "the state after a motion", wanted.moved, got.moved, tolerance=STATE_TOLERANCE
        ),
    ]
    for role, digest in wanted.frames_sha256.items():
        if got.frames_sha256[role] != digest:
            findings += compare_frames(
                f"camera {role}", wanted.coarse_frames[role], got.coarse_frames[role]
            )
    return findings


def main(arguments: Sequence[str]) -> int:
    """Check, or with `--write` record; return the exit code."""
    platform = RobocasaPlatform.open(RobocasaOptions())
    try:
        if list(arguments) == ["--write"]:
            path = Path(__file__).with_name("golden.json")
            path.write_bytes(msgspec.json.encode(measure()) + b"\n")
            return 0
        findings = check_golden(platform)
    finally:
        platform.close()
    for finding in findings:
        sys.stderr.write(f"{finding}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
