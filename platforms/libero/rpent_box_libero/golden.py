# SPDX-License-Identifier: Apache-2.0
"""Whether physics and renderer are what they should be: settled scenes, known in advance.

`python -m rpent_box_libero.golden` prints what differs and exits 1 when something does; `--write`
records the scenes anew, which only a change of the pins justifies. There is one for each platform.

A newer MuJoCo settles the same scene elsewhere and draws darker floors, and success rates drop
without an error. Hence the check when an image is built, and in `rpent-box doctor`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image, Observation
from rpent_box.errors import SimulatorError
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
GREY_LEVELS_TOLERANCE = 2.0
"""Mean difference of the coarse frames, of 255. Another rasteriser stays within it."""
_BLOCKS = 16


class Golden(Struct, frozen=True, kw_only=True):
    """A settled scene, small enough to ship."""

    image_size: tuple[int, int]
    state: list[float]
    """Time, positions, velocities after settling."""
    frames_sha256: dict[str, str]
    coarse_frames: dict[str, list[list[list[int]]]]
    """Camera role → means of 16 x 16 blocks, uint8 [16, 16, 3]."""


_FILES = {LIBERO: "golden.json", LIBERO_PRO: "pro_golden.json"}


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    part: Literal["physics", "renderer"]
    message: str


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
    observation = platform.reset(SCENES[platform.meta.name])
    return Golden(
        image_size=platform.meta.image_size,
        state=platform.recorded_states()[0].tolist(),
        frames_sha256=_hashes(observation),
        coarse_frames={role: _coarse(frame).tolist() for role, frame in _frames(observation)},
    )


def compare(wanted: Golden, got: Golden) -> list[Finding]:
    """Return what differs between two measurements of the known scene."""
    if wanted.image_size != got.image_size:
        raise SimulatorError(
            f"the known scene was drawn at {wanted.image_size}, not {got.image_size}",
            hint=f"Check with --image-size {wanted.image_size[0]}",
        )
    findings = [*_compare_states(np.array(wanted.state), np.array(got.state))]
    for role, digest in got.frames_sha256.items():
        if wanted.frames_sha256[role] != digest:
            findings += _compare_frames(
                role, np.array(wanted.coarse_frames[role]), np.array(got.coarse_frames[role])
            )
    return findings


def _compare_states(wanted: NDArray[np.float64], got: NDArray[np.float64]) -> list[Finding]:
    if wanted.shape != got.shape:
        message = f"the settled state has {got.size} numbers, not {wanted.size}"
        return [Finding(part="physics", message=message)]
    off = float(np.abs(wanted - got).max())
    if off <= STATE_TOLERANCE:
        return []
    message = f"the settled state is off by {off:.2g}; at most {STATE_TOLERANCE:.0e} was expected"
    return [Finding(part="physics", message=message)]


def _compare_frames(role: str, wanted: NDArray[np.int64], got: NDArray[np.int64]) -> list[Finding]:
    off = float(np.abs(wanted - got).mean())
    if off <= GREY_LEVELS_TOLERANCE:
        return []
    message = (
        f"camera {role} is off by {off:.1f} grey levels on average; "
        f"at most {GREY_LEVELS_TOLERANCE:.0f} was expected"
    )
    return [Finding(part="renderer", message=message)]


def _frames(observation: Observation) -> list[tuple[str, Image]]:
    return sorted(observation.images.items())


def _hashes(observation: Observation) -> dict[str, str]:
    return {
        role: hashlib.sha256(frame.tobytes()).hexdigest() for role, frame in _frames(observation)
    }


def _coarse(frame: Image) -> NDArray[np.uint8]:
    height, width = frame.shape[0] // _BLOCKS, frame.shape[1] // _BLOCKS
    cut = frame[: height * _BLOCKS, : width * _BLOCKS]
    blocks = cut.reshape(_BLOCKS, height, _BLOCKS, width, 3)
    return np.asarray(np.rint(blocks.mean(axis=(1, 3))), dtype=np.uint8)


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
        sys.stderr.write(f"{finding.part}: {finding.message}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
