# SPDX-License-Identifier: Apache-2.0
"""Which way up a frame is: told by coarse pictures of scenes that a person has looked at.

    python platform_frames.py PLATFORM FOLDER

draws the first scene's cameras into FOLDER, to be looked at, and records their coarse pictures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image

RECORDED = Path(__file__).resolve().parents[2] / "goldens" / "coarse_frames.json"
BLOCKS = 16
ALIKE = 0.9
"""A frame's correlation with its coarse picture is above this; equal scenes give 1."""
TELLS = 0.97
"""A picture that is this much like itself turned tells nothing about the turn."""

Coarse: TypeAlias = NDArray[np.float64]
"""Means of 16 x 16 blocks: float64 [16, 16, 3]."""

WRONG_WAYS = {
    "upside down": lambda frame: frame[::-1],
    "mirrored": lambda frame: frame[:, ::-1],
    "turned by half": lambda frame: frame[::-1, ::-1],
    "in blue, green, red": lambda frame: frame[:, :, ::-1],
}


def cameras_that_tell(pictures: dict[str, Coarse], wrong: str) -> list[str]:
    """Return the cameras in whose picture `wrong` can be seen: an even wall has no left side."""
    turn = WRONG_WAYS[wrong]
    return [role for role, picture in pictures.items() if likeness(turn(picture), picture) < TELLS]


def coarse(frame: Image) -> Coarse:
    """Return the means of 16 x 16 blocks; what is left over at the edges is cut off."""
    height, width = frame.shape[0] // BLOCKS, frame.shape[1] // BLOCKS
    cut = frame[: height * BLOCKS, : width * BLOCKS].astype(np.float64)
    return cut.reshape(BLOCKS, height, BLOCKS, width, 3).mean(axis=(1, 3))


def likeness(one: Coarse, other: Coarse) -> float:
    """Return the correlation of two coarse pictures, colours included."""
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def recorded(platform: str) -> dict[str, Coarse]:
    """Return camera role → coarse picture; empty for a platform that nobody has looked at."""
    frames = msgspec.json.decode(RECORDED.read_bytes()).get(platform, {})
    return {role: np.array(frame, dtype=np.float64) for role, frame in frames.items()}


def record(platform: str, frames: dict[str, Image]) -> None:
    """Write the coarse pictures of `frames` beside those of the other platforms."""
    known = msgspec.json.decode(RECORDED.read_bytes()) if RECORDED.is_file() else {}
    known[platform] = {
        role: np.rint(coarse(frame)).astype(int).tolist() for role, frame in frames.items()
    }
    RECORDED.write_bytes(msgspec.json.encode(known, order="sorted") + b"\n")


def main(words: list[str]) -> None:
    from PIL import Image as Pillow
    from platform_subjects import opened

    from rpent_box.plugins import find_platform

    name, folder = words
    with opened(find_platform(name)) as running:
        seen = running.platform.reset(running.scene)
    record(name, {role: seen.images[role] for role in running.cameras})
    for role in running.cameras:
        Pillow.fromarray(seen.images[role]).save(Path(folder) / f"{name}-{role}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
