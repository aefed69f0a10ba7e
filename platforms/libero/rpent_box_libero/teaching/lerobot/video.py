# SPDX-License-Identifier: Apache-2.0
"""Frames as h264, small and near enough to the pixels that a network sees no difference."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.lerobot.layout import FPS

_OPTIONS = {"preset": "veryfast", "crf": "12", "g": "8", "bf": "0", "threads": "1"}
"""No frame waits for a later one, and none is further than 7 frames from one that stands alone."""


def write_video(path: Path, frames: Sequence[NDArray[np.uint8]]) -> None:
    """Write `frames` uint8 RGB [height, width, 3], `FPS` per second. Raises `OSError`."""
    height, width, _ = frames[0].shape
    with av.open(str(path), "w", format="mp4") as file:
        stream = file.add_stream("libx264", rate=FPS, options=_OPTIONS)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.time_base = Fraction(1, FPS)
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
