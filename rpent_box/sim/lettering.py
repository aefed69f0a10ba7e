# SPDX-License-Identifier: Apache-2.0
"""A few words in a picture, without a font: capitals and digits of five by seven dots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image

SCALE = 2
"""Pixels per dot, both ways."""
LETTER_WIDTH = 6 * SCALE
LETTER_HEIGHT = 7 * SCALE

_ROWS = """
A 0e11111f111111 B 1e11111e11111e C 0e11101010110e D 1e11111111111e E 1f10101e10101f
F 1f10101e101010 G 0e11101711110f H 1111111f111111 I 0e04040404040e J 0702020202120c
K 11121418141211 L 1010101010101f M 111b1515111111 N 11111915131111 O 0e11111111110e
P 1e11111e101010 Q 0e11111115120d R 1e11111e141211 S 0f10100e01011e T 1f040404040404
U 1111111111110e V 11111111110a04 W 1111111515150a X 11110a040a1111 Y 11110a04040404
Z 1f01020408101f 0 0e11131519110e 1 040c040404040e 2 0e11010204081f 3 1f02040201110e
4 02060a121f0202 5 1f101e0101110e 6 0608101e11110e 7 1f010204080808 8 0e11110e11110e
9 0e11110f01020c - 0000001f000000 . 00000000000c0c : 000c0c000c0c00
"""
"""Letter, and seven rows of dots from the top, each a byte whose bit 4 is the leftmost dot."""


def _dots(rows: str) -> NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(rows), np.uint8)[:, None], axis=1)
    return bits[:, 3:].astype(bool)


_WORDS = _ROWS.split()
_LETTERS = {letter: _dots(rows) for letter, rows in zip(_WORDS[::2], _WORDS[1::2], strict=True)}


def write_text(picture: Image, text: str, *, left: int, top: int, colour: int = 230) -> None:
    """Write `text` into `picture`, in place; what has no letter is a gap, what is too long is cut.

    Small letters become capitals.
    """
    for number, letter in enumerate(text.upper()):
        dots = _LETTERS.get(letter)
        begin = left + number * LETTER_WIDTH
        if dots is None or begin + LETTER_WIDTH > picture.shape[1]:
            continue
        drawn = dots.repeat(SCALE, axis=0).repeat(SCALE, axis=1)
        place = picture[top : top + LETTER_HEIGHT, begin : begin + drawn.shape[1]]
        place[drawn] = colour
