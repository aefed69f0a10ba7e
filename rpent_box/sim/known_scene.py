# SPDX-License-Identifier: Apache-2.0
"""How a known scene is compared with what was recorded of it, for `PlatformPlugin.check`.

Physics by numbers, pictures by their coarse colours: another rasteriser differs by little, another
version of a simulator, or a lamp that is missing, by much.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from rpent_box.contracts.observation import Image

GREY_LEVELS_TOLERANCE = 2.0
"""Mean difference of coarse frames, of 255."""
BLOCKS = 16
_SOFTWARE = ("osmesa", "llvmpipe", "softpipe", "swrast", "lavapipe")


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    part: Literal["physics", "renderer"]
    message: str

    def __str__(self) -> str:
        return f"{self.part}: {self.message}"


def compare_states(
    what: str, wanted: ArrayLike, got: ArrayLike, *, tolerance: float
) -> list[Finding]:
    """Return what differs between two states of equal shape, e.g. `the settled state`."""
    if np.shape(wanted) != np.shape(got):
        message = f"{what} has {np.size(got)} numbers, not {np.size(wanted)}"
        return [Finding(part="physics", message=message)]
    off = float(np.abs(np.subtract(wanted, got)).max())
    # Written this way round, NaN is a finding too.
    if off <= tolerance:
        return []
    message = f"{what} is off by {off:.2g}; at most {tolerance:.0e} was expected"
    return [Finding(part="physics", message=message)]


def compare_frames(what: str, wanted: ArrayLike, got: ArrayLike) -> list[Finding]:
    """Return what differs between two coarse frames, e.g. of `camera wrist`."""
    off = float(np.abs(np.subtract(wanted, got, dtype=np.float64)).mean())
    if off <= GREY_LEVELS_TOLERANCE:
        return []
    message = (
        f"{what} is off by {off:.1f} grey levels on average; "
        f"at most {GREY_LEVELS_TOLERANCE:.0f} was expected"
    )
    return [Finding(part="renderer", message=message)]


def coarse(frame: Image) -> NDArray[np.uint8]:
    """Return means of 16 x 16 blocks of `frame`, uint8 [16, 16, 3]; what is left over is cut."""
    height, width = frame.shape[0] // BLOCKS, frame.shape[1] // BLOCKS
    cut = frame[: height * BLOCKS, : width * BLOCKS]
    blocks = cut.reshape(BLOCKS, height, BLOCKS, width, 3)
    return np.asarray(np.rint(blocks.mean(axis=(1, 3))), dtype=np.uint8)


def frame_sha256(frame: Image) -> str:
    """Return the hash of a contiguous frame's bytes."""
    return hashlib.sha256(frame.tobytes()).hexdigest()


def draws_in_software(renderer: str) -> bool:
    """Tell whether `renderer`, as a platform names it, draws without a GPU."""
    return any(name in renderer.lower() for name in _SOFTWARE)
