# SPDX-License-Identifier: Apache-2.0
"""Whether physics and renderer are what they should be: one scene, known in advance.

`python -m rpent_box_robotwin.golden` prints what differs and exits 1 when something does; `--write`
records the scene anew, which only a change of the pins justifies.

The scene is made of SAPIEN's own shapes (`golden_scene`), since RoboTwin's assets are 15 GB that
an image is built without. It says nothing about the assets: those carry a revision.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct

from rpent_box.sim.known_scene import (
    Finding,
    coarse,
    compare_frames,
    compare_states,
    draws_in_software,
)
from rpent_box_robotwin.plugin import RobotwinOptions

if TYPE_CHECKING:
    from rpent_box_robotwin.platform import RobotwinPlatform

_log = logging.getLogger("rpent_box_robotwin")

STATE_TOLERANCE = 1e-4
"""Metres, parts of a quaternion, radians. Arithmetic of another processor stays below it; a
friction that is 1 % higher moves a block by seven times as much."""


class Golden(Struct, frozen=True, kw_only=True):
    """A known scene, small enough to ship."""

    states: list[list[float]]
    """What `golden_scene.play` returns: blocks and joint on their way."""
    coarse_frame: list[list[list[int]]]
    """Means of 16 x 16 blocks of the last frame, uint8 [16, 16, 3]."""


def check_golden(platform: RobotwinPlatform) -> list[Finding]:
    """Play the known scene beside whatever `platform` holds; return what differs.

    Frames are compared on a software renderer only, since the recorded one was drawn by one.
    """
    frames = draws_in_software(platform.renderer)
    if not frames:
        _log.warning(
            "the recorded scene was drawn in software, so on %s its physics alone is compared",
            platform.renderer,
        )
    return compare(read_golden(), measure(), frames=frames)


def read_golden() -> Golden:
    """Return the recorded scene."""
    data = files("rpent_box_robotwin").joinpath("golden.json").read_bytes()
    return msgspec.json.decode(data, type=Golden)


def measure() -> Golden:
    """Play the known scene and return what it gives. Needs the simulator."""
    from rpent_box_robotwin.golden_scene import play

    states, frame = play()
    return Golden(states=np.round(states, 7).tolist(), coarse_frame=coarse(frame).tolist())


def compare(wanted: Golden, got: Golden, *, frames: bool) -> list[Finding]:
    """Return what differs between two measurements of the known scene."""
    what = "the known scene"
    findings = compare_states(what, wanted.states, got.states, tolerance=STATE_TOLERANCE)
    if frames:
        findings += compare_frames(what, wanted.coarse_frame, got.coarse_frame)
    return findings


def main(arguments: Sequence[str]) -> int:
    """Check, or with `--write` record; return the exit code."""
    from rpent_box_robotwin.platform import RobotwinPlatform

    platform = RobotwinPlatform.open(RobotwinOptions())
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
