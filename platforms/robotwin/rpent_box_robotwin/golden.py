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
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image
from rpent_box_robotwin.plugin import RobotwinOptions

if TYPE_CHECKING:
    from rpent_box_robotwin.platform import RobotwinPlatform

_log = logging.getLogger("rpent_box_robotwin")

STATE_TOLERANCE = 1e-4
"""Metres, parts of a quaternion, radians. Arithmetic of another processor stays below it; a
friction that is 1 % higher moves a block by seven times as much."""
GREY_LEVELS_TOLERANCE = 2.0
"""Mean difference of the coarse frames, of 255. Another software rasteriser stays within it."""
_BLOCKS = 16
_SOFTWARE = ("llvmpipe", "lavapipe", "swrast", "softpipe")


class Golden(Struct, frozen=True, kw_only=True):
    """A known scene, small enough to ship."""

    states: list[list[float]]
    """What `golden_scene.play` returns: blocks and joint on their way."""
    coarse_frame: list[list[list[int]]]
    """Means of 16 x 16 blocks of the last frame, uint8 [16, 16, 3]."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    part: Literal["physics", "renderer"]
    message: str


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


def draws_in_software(renderer: str) -> bool:
    """Say whether `renderer`, as a platform names it, draws without a GPU."""
    return any(name in renderer.lower() for name in _SOFTWARE)


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
    findings = []
    off = _largest(wanted.states, got.states)
    # Written this way round, NaN is a finding too.
    if not off <= STATE_TOLERANCE:
        message = f"the known scene is off by {off:.2g}; at most {STATE_TOLERANCE:.0e} was expected"
        findings.append(Finding(part="physics", message=message))
    off = float(np.abs(np.subtract(wanted.coarse_frame, got.coarse_frame)).mean())
    if frames and off > GREY_LEVELS_TOLERANCE:
        message = (
            f"the known scene is off by {off:.1f} grey levels on average; "
            f"at most {GREY_LEVELS_TOLERANCE:.0f} was expected"
        )
        findings.append(Finding(part="renderer", message=message))
    return findings


def coarse(frame: Image) -> NDArray[np.uint8]:
    """Return means of 16 x 16 blocks of `frame`, uint8 [16, 16, 3]."""
    height, width = frame.shape[0] // _BLOCKS, frame.shape[1] // _BLOCKS
    cut = frame[: height * _BLOCKS, : width * _BLOCKS]
    blocks = cut.reshape(_BLOCKS, height, _BLOCKS, width, 3)
    return np.asarray(np.rint(blocks.mean(axis=(1, 3))), dtype=np.uint8)


def _largest(wanted: list[list[float]], got: list[list[float]]) -> float:
    if np.shape(wanted) != np.shape(got):
        return float("inf")
    return float(np.abs(np.subtract(wanted, got)).max())


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
        sys.stderr.write(f"{finding.part}: {finding.message}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
