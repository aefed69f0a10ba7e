# SPDX-License-Identifier: Apache-2.0
"""Whether physics and renderer are what they should be: settled scenes, known in advance.

`python -m rpent_box_libero.golden` prints what differs and exits 1 when something does; `--write`
records the scenes anew, which only a change of the pins justifies. There is one for each platform.

A newer MuJoCo settles the same scene elsewhere and draws darker floors, and success rates drop
without an error. Hence the check when an image is built, and in `rpent-box doctor`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from rpent_box.errors import SimulatorError
from rpent_box.sim.known_scene import (
    Finding,
    coarse,
    compare_frames,
    compare_states,
    frame_sha256,
)
from rpent_box.sim.platform import Scene
from rpent_box_libero.platform import LiberoPlatform
from rpent_box_libero.plugin import LiberoOptions
from rpent_box_libero.suites import LIBERO, LIBERO_PRO

SCENES = {
    LIBERO: Scene(suite="libero_spatial", task=0, init_state=0, seed=7),
    LIBERO_PRO: Scene(suite="libero_spatial_object", task=0, init_state=0, seed=7),
}
"""Platform → a scene of its own; LIBERO-Pro's holds models that LIBERO never shows."""
STATE_TOLERANCE = 1e-9
"""Metres, radians, and their rates. Other versions of MuJoCo miss it by far."""


class Golden(Struct, frozen=True, kw_only=True):
    """A settled scene, small enough to ship."""

    image_size: tuple[int, int]
    state: list[float]
    """Time, positions, velocities after settling."""
    frames_sha256: dict[str, str]
    coarse_frames: dict[str, list[list[list[int]]]]
    """Camera role → means of 16 x 16 blocks, uint8 [16, 16, 3]."""


_FILES = {LIBERO: "golden.json", LIBERO_PRO: "pro_golden.json"}


def check_golden(platform: LiberoPlatform) -> list[Finding]:
    """Reset `platform` to its known scene and return what differs; empty when all is well.

    A camera that the connected model does not look through is not compared. Raises `SimulatorError`
    for a platform with another image size than the recorded one.
    """
    return compare(read_golden(platform.meta.name), measure(platform))


def read_golden(platform: str = LIBERO) -> Golden:
    """Return the recorded scene of `platform`."""
    data = files("rpent_box_libero").joinpath(_FILES[platform]).read_bytes()
    return msgspec.json.decode(data, type=Golden)


def measure(platform: LiberoPlatform) -> Golden:
    """Reset `platform` to its known scene and return what it gives."""
    frames = sorted(platform.reset(SCENES[platform.meta.name]).images.items())
    return Golden(
        image_size=platform.meta.image_size,
        state=platform.recorded_states()[0].tolist(),
        frames_sha256={role: frame_sha256(frame) for role, frame in frames},
        coarse_frames={role: coarse(frame).tolist() for role, frame in frames},
    )


def compare(wanted: Golden, got: Golden) -> list[Finding]:
    """Return what differs between two measurements of the known scene."""
    if wanted.image_size != got.image_size:
        raise SimulatorError(
            f"the known scene was drawn at {wanted.image_size}, not {got.image_size}",
            hint=f"Check with --image-size {wanted.image_size[0]}",
        )
    findings = compare_states(
        "the settled state", wanted.state, got.state, tolerance=STATE_TOLERANCE
    )
    for role, digest in got.frames_sha256.items():
        if wanted.frames_sha256[role] != digest:
            findings += compare_frames(
                f"camera {role}", wanted.coarse_frames[role], got.coarse_frames[role]
            )
    return findings


def main(arguments: Sequence[str]) -> int:
    """Check, or with `--write` record; return the exit code."""
    findings: list[Finding] = []
    for name, file in _FILES.items():
        platform = LiberoPlatform.open(LiberoOptions(), name=name)
        try:
            if list(arguments) == ["--write"]:
                path = Path(__file__).with_name(file)
                path.write_bytes(msgspec.json.encode(measure(platform)) + b"\n")
            else:
                findings += check_golden(platform)
        finally:
            platform.close()
    for finding in findings:
        sys.stderr.write(f"{finding}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
