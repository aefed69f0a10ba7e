# SPDX-License-Identifier: Apache-2.0
"""Writes an episode as an mp4 that every browser plays: H.264, yuv420p, index at the front.

Beside it lies its last frame as a small JPEG, for pages that show many episodes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import numpy as np

from rpent_box.contracts.observation import Image
from rpent_box.sim.results import write_atomically

QUALITY = {"crf": "20", "preset": "veryfast"}
"""x264's own settings: visually clean, and quicker to encode than a frame is to render."""

THUMBNAIL_WIDTH = 320
"""Pixels, at most: about ten kilobytes."""
THUMBNAIL_QUALITY = {"qmin": "3", "qmax": "3"}
"""Of ffmpeg's JPEG scale, from 2, the best, to 31."""


Finish: TypeAlias = Callable[[int, dict[str, Image], Image], Image]
"""Frame number, what it shows, its cameras side by side → the picture, always of one even size."""


def write_video(
    frames: Iterable[dict[str, Image]],
    path: Path,
    *,
    fps: float,
    roles: Sequence[str],
    finish: Finish | None = None,
    on_frame: Callable[[int], None] = lambda _count: None,
) -> int:
    """Encode `frames`, side by side those cameras of `roles` that they show, and count them.

    `roles` gives the order. It may name more than is drawn again, such as what a camera showed some
    steps ago; the first frame decides. `finish` may add to each picture. `path` appears whole or
    not at all. Needs PyAV. Raises whatever PyAV or the renderer raises, and `ValueError` when there
    is nothing to show.
    """
    import av

    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    count, shown = 0, list[str]()
    try:
        # The index goes before the frames, so that a browser starts without the whole file.
        with av.open(partial, "w", format="mp4", options={"movflags": "+faststart"}) as container:
            stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
            stream.pix_fmt = "yuv420p"
            stream.options = QUALITY
            for images in frames:
                shown = shown or _shown(images, roles)
                picture = side_by_side([images[role] for role in shown])
                if finish is not None:
                    picture = finish(count, images, picture)
                if count == 0:
                    stream.height, stream.width = picture.shape[:2]
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
                count += 1
                on_frame(count)
            if count == 0:
                raise ValueError("the episode has no frame to show")
            container.mux(stream.encode(None))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return count


class LastSeen:
    """Passes frames on, and keeps the last one."""

    def __init__(self, frames: Iterable[dict[str, Image]]) -> None:
        self._frames = frames
        self.images: dict[str, Image] | None = None
        """Camera role → uint8 [height, width, 3]; None: nothing was asked for yet."""

    def __iter__(self) -> Iterator[dict[str, Image]]:
        for images in self._frames:
            self.images = images
            yield images


def write_thumbnail(images: dict[str, Image], path: Path, *, roles: Sequence[str]) -> None:
    """Write one frame as a JPEG of at most `THUMBNAIL_WIDTH` pixels, cameras as in the video.

    `path` appears whole or not at all. Needs PyAV. Raises whatever PyAV raises, and `ValueError`
    when no camera of `roles` is shown.
    """
    import av

    picture = side_by_side([images[role] for role in _shown(images, roles)])
    width = min(THUMBNAIL_WIDTH, picture.shape[1])
    height = max(2, round(picture.shape[0] * width / picture.shape[1] / 2) * 2)
    # A JPEG's luminance takes all 256 values; the "j" says so, or blacks come out grey.
    frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(
        width=width, height=height, format="yuvj420p", interpolation="AREA"
    )
    codec = av.CodecContext.create("mjpeg", "w")
    codec.width, codec.height, codec.pix_fmt = width, height, "yuvj420p"
    codec.time_base = Fraction(1, 1)
    codec.options = THUMBNAIL_QUALITY
    packets = [*codec.encode(frame), *codec.encode(None)]
    write_atomically(path, b"".join(bytes(packet) for packet in packets))


def _shown(images: dict[str, Image], roles: Sequence[str]) -> list[str]:
    shown = [role for role in roles if role in images]
    if not shown:
        raise ValueError(f"the episode shows {', '.join(images)} and none of {', '.join(roles)}")
    return shown


def side_by_side(images: Sequence[Image]) -> Image:
    """Return `images` in one row, top-aligned on black, height and width even as yuv420p needs."""
    height = max(image.shape[0] for image in images)
    width = sum(image.shape[1] for image in images)
    canvas: Image = np.zeros((height + height % 2, width + width % 2, 3), dtype=np.uint8)
    left = 0
    for image in images:
        canvas[: image.shape[0], left : left + image.shape[1]] = image
        left += image.shape[1]
    return canvas
