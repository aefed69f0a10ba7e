# SPDX-License-Identifier: Apache-2.0
"""From camera frames to the one picture that the model sees, pixel by pixel as it was trained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpent_box.contracts.observation import Image


def compose(views: Sequence[Image], width_height: tuple[int, int]) -> Image:
    """Return uint8 RGB [height, width, 3]: the views side by side, fitted into the model's frame.

    Views of different sizes cannot lie side by side; then the first stands alone, as upstream does.
    """
    same_size = all(view.shape == views[0].shape for view in views)
    joined = np.concatenate(views, axis=1) if same_size else views[0]
    return fit(joined, width_height)


def fit(image: Image, width_height: tuple[int, int]) -> Image:
    """Scale down, never up, and fill up on the right and at the bottom.

    What is filled mirrors the picture (without repeating its edge), or repeats its edge where a
    mirror would not reach.
    """
    width, height = width_height
    scale = min(width / image.shape[1], height / image.shape[0], 1.0)
    inner_width = _within(scale * image.shape[1], width)
    inner_height = _within(scale * image.shape[0], height)
    if (inner_height, inner_width) != image.shape[:2]:
        image = _resized(image, (inner_width, inner_height))
    right, bottom = width - inner_width, height - inner_height
    if right == 0 and bottom == 0:
        return np.ascontiguousarray(image)
    mirrored = right < inner_width and bottom < inner_height
    margins = ((0, bottom), (0, right), (0, 0))
    filled = np.pad(image, margins, mode="reflect" if mirrored else "edge")
    return np.ascontiguousarray(filled)


def _within(length: float, most: int) -> int:
    """Round half up, to between 1 and `most`."""
    return max(1, min(int(length + 0.5), most))


def _resized(image: Image, width_height: tuple[int, int]) -> Image:
    from PIL import Image as Pillow

    picture = Pillow.fromarray(image)
    return np.asarray(picture.resize(width_height, Pillow.Resampling.BICUBIC))
