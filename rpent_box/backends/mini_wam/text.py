# SPDX-License-Identifier: Apache-2.0
"""How an instruction becomes numbers: hashed words and letter groups, without a vocabulary."""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Iterator

import numpy as np

from rpent_box.contracts.observation import Vector

TEXT_ENCODING = "hashed-ngrams.v1"
"""Names everything below; weights record it. A change of meaning is a new name."""
TEXT_FEATURES = 512


def plain(instruction: str) -> str:
    """Return the words of `instruction`, lower case, one space between; nothing else."""
    return " ".join(re.findall(r"[a-z0-9]+", instruction.lower()))


@functools.lru_cache(maxsize=256)
def encode_instruction(instruction: str) -> Vector:
    """Return float32 [TEXT_FEATURES], a signed bag of n-grams of length 1; zeros for no words.

    Read-only, since the same sentence comes with each observation and is encoded once.

    Words, pairs of neighbouring words and groups of three letters each fall into a column by their
    CRC-32, with a sign from its top bit so that collisions cancel rather than add. Letter groups
    let a plural or a misspelling land near its word.
    """
    features = np.zeros(TEXT_FEATURES, np.float32)
    for gram in _grams(plain(instruction)):
        code = zlib.crc32(gram.encode())
        features[code % TEXT_FEATURES] += 1.0 if code >> 31 else -1.0
    length = float(np.linalg.norm(features))
    if length > 0:
        features /= np.float32(length)
    features.flags.writeable = False
    return features


def _grams(text: str) -> Iterator[str]:
    words = text.split()
    yield from (f"w:{word}" for word in words)
    yield from (f"p:{left} {right}" for left, right in zip(words, words[1:], strict=False))
    for word in words:
        edged = f"<{word}>"
        yield from (f"l:{edged[start : start + 3]}" for start in range(len(edged) - 2))
