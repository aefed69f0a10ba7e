# SPDX-License-Identifier: Apache-2.0
"""Frames as openpi's clients send them: 224x224, never distorted, black where there is nothing.

The pixels equal `resize_with_pad` and `convert_to_uint8` of openpi-client
(openpi_client/image_tools.py) with the same Pillow release.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from rpent_box.contracts.observation import Image
from rpent_box.errors import BadObservation

SIZE = 224
"""Pixels a side: what the model's vision tower takes."""


def to_uint8(image: NDArray[Any]) -> Image:
    """Return uint8; floats from 0 to 1 are scaled and cut off, not rounded."""
    if np.issubdtype(image.dtype, np.floating):
        return (255 * image).astype(np.uint8)
    return image


def resize_with_pad(image: Image, role: str) -> Image:
    """Return uint8 [224, 224, 3]: the whole frame, bilinear, centred between black bars.

    A frame of that size comes back as it is. Raises `BadObservation` for a frame so narrow that
    nothing of it would be left.
    """
    height, width = image.shape[:2]
    if (height, width) == (SIZE, SIZE):
        return image
    ratio = max(width / SIZE, height / SIZE)
    inner_height, inner_width = int(height / ratio), int(width / ratio)
    if not inner_height or not inner_width:
        raise BadObservation(
            f"camera {role} is {height}x{width}; scaled to {SIZE} pixels nothing of it is left"
        )
    resized = PillowImage.fromarray(image).resize(
        (inner_width, inner_height), resample=PillowImage.Resampling.BILINEAR
    )
    padded = np.zeros((SIZE, SIZE, 3), np.uint8)
    top, left = (SIZE - inner_height) // 2, (SIZE - inner_width) // 2
    padded[top : top + inner_height, left : left + inner_width] = np.asarray(resized)
    return padded
