# SPDX-License-Identifier: Apache-2.0
"""Draws into an episode's video what its model expected, beneath the cameras.

┌──────────┬──────────┐
│ primary  │ wrist    │   the cameras
├──────────┼──────────┤
│ expected │ seen     │   the frame expected after the present chunk; what was seen then
├──────────┴──────────┤
│ value  ▁▂▃▄▅▆       │   a bar per prediction; the present one is bright
└─────────────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpent_box.contracts.observation import Image
from rpent_box.sim.foresight import Foresight, Moment, reduced
from rpent_box.sim.lettering import LETTER_HEIGHT, LETTER_WIDTH, write_text
from rpent_box.sim.recording import step_of_frame

CAPTION_HEIGHT = LETTER_HEIGHT + 8
VALUE_HEIGHT = 48
VALUE_LEFT = 12 * LETTER_WIDTH
"""Where the bars begin, beside the number."""
MARGIN = 4
GROUND, FAINT, PLAYED, PRESENT = 24, 60, 130, 255
"""Brightness of the ground, of bars to come, of those that were, and of the present one."""


class Overlay:
    """Adds an episode's predictions to the pictures of its video, in their order."""

    def __init__(
        self,
        foresight: Foresight,
        *,
        steps: int,
        roles: Sequence[str],
        fps: float,
        control_hz: float,
    ) -> None:
        """`steps` were executed; `roles` are the cameras' in their order."""
        self._moments = foresight.moments
        self._steps = steps
        shown = {role for moment in self._moments for role in moment.expected}
        self._roles = [role for role in roles if role in shown]
        self._has_values = any(moment.value is not None for moment in self._moments)
        self._fps, self._control_hz = fps, control_hz

    def draw(self, frame: int, images: dict[str, Image], cameras: Image) -> Image:
        """Return frame number `frame`: `cameras`, which shows `images`, and what belongs below."""
        step = step_of_frame(frame, fps=self._fps, control_hz=self._control_hz)
        present = self._present(min(step, self._steps))
        parts = [cameras]
        if self._roles:
            parts.append(self._frames(present, images, height=cameras.shape[0]))
        if self._has_values:
            width = max(part.shape[1] for part in parts)
            parts.append(self._values(present, width=width))
        return stacked(parts)

    def _present(self, step: int) -> Moment | None:
        """Return the prediction that led to `step`; at the start, the first one."""
        past = [moment for moment in self._moments if moment.step < max(1, step)]
        return past[-1] if past else None

    def _frames(self, present: Moment | None, images: dict[str, Image], *, height: int) -> Image:
        tiles = []
        for role in self._roles:
            expected = present.expected.get(role) if present is not None else None
            came = present.came.get(role) if present is not None else None
            words = "seen then"
            if came is None and expected is not None and role in images:
                # The episode ended within the chunk: nothing was seen after it.
                came, words = reduced(images[role], *expected.shape[:2]), "seen now"
            shape = self._shape(role, height)
            tiles.append(_tile(expected, f"{role} expected", shape))
            tiles.append(_tile(came, f"{role} {words}", shape))
        return np.concatenate(tiles, axis=1)

    def _shape(self, role: str, height: int) -> tuple[int, int]:
        frame = next(one.expected[role] for one in self._moments if role in one.expected)
        return height, round(frame.shape[1] * height / frame.shape[0])

    def _values(self, present: Moment | None, *, width: int) -> Image:
        strip = _ground(VALUE_HEIGHT, width)
        value = present.value if present is not None else None
        number = "-" if value is None else f"{value:.2f}"
        write_text(strip, f"value {number}", left=MARGIN, top=(VALUE_HEIGHT - LETTER_HEIGHT) // 2)
        given = [one.value for one in self._moments if one.value is not None]
        low, high = min(0.0, *given), max(1.0, *given)
        room = max(1, width - VALUE_LEFT - MARGIN)
        for moment in self._moments:
            if moment.value is None:
                continue
            left = VALUE_LEFT + moment.step * room // max(1, self._steps)
            right = VALUE_LEFT + min(moment.due, self._steps) * room // max(1, self._steps)
            tall = round((moment.value - low) / (high - low) * (VALUE_HEIGHT - 2 * MARGIN))
            foot = VALUE_HEIGHT - MARGIN
            strip[foot - max(1, tall) : foot, left : max(left + 1, right - 1)] = _brightness(
                moment, present
            )
        return strip


def stacked(pictures: Sequence[Image]) -> Image:
    """Return `pictures` one below the other, left-aligned on black, of even height and width."""
    height = sum(picture.shape[0] for picture in pictures)
    width = max(picture.shape[1] for picture in pictures)
    canvas: Image = np.zeros((height + height % 2, width + width % 2, 3), dtype=np.uint8)
    top = 0
    for picture in pictures:
        canvas[top : top + picture.shape[0], : picture.shape[1]] = picture
        top += picture.shape[0]
    return canvas


def enlarged(image: Image, height: int, width: int) -> Image:
    """Return `image` at [height, width], each pixel as it is: the nearest one."""
    rows = np.arange(height) * image.shape[0] // height
    columns = np.arange(width) * image.shape[1] // width
    larger: Image = image[rows][:, columns]
    return larger


def _brightness(moment: Moment, present: Moment | None) -> int:
    if moment is present:
        return PRESENT
    return PLAYED if present is not None and moment.step < present.step else FAINT


def _tile(image: Image | None, caption: str, shape: tuple[int, int]) -> Image:
    height, width = shape
    strip = _ground(CAPTION_HEIGHT, width)
    write_text(strip, caption, left=MARGIN, top=(CAPTION_HEIGHT - LETTER_HEIGHT) // 2)
    shown = _ground(height, width) if image is None else enlarged(image, height, width)
    return np.concatenate([strip, shown])


def _ground(height: int, width: int) -> Image:
    return np.full((height, width, 3), GROUND, np.uint8)
