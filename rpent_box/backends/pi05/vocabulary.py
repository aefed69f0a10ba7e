# SPDX-License-Identifier: Apache-2.0
"""A sentencepiece model's size, read without sentencepiece."""

from __future__ import annotations

from pathlib import Path

from rpent_box.errors import BadCheckpoint

_PIECES = 1
"""The field of a ModelProto that is repeated once per piece (sentencepiece_model.proto)."""
_LENGTH_DELIMITED = 2


def count_pieces(path: str | Path) -> int:
    """Return how many pieces the vocabulary has. Raises `BadCheckpoint` for a cut or foreign file.

    A sentencepiece model is one protobuf message; only its outermost fields are walked.
    """
    data = Path(path).read_bytes()
    pieces = position = 0
    try:
        while position < len(data):
            tag, position = _varint(data, position)
            if tag & 7 != _LENGTH_DELIMITED:
                raise ValueError(f"field {tag >> 3} has wire type {tag & 7}")
            length, position = _varint(data, position)
            position += length
            pieces += tag >> 3 == _PIECES
        if position != len(data):
            raise ValueError(f"it has {len(data)} of {position} bytes")
    except (ValueError, IndexError) as error:
        raise BadCheckpoint(
            f"the tokenizer {path} is cut or no sentencepiece model: {error}",
            hint="Copy the file again, and compare its size with the original's.",
        ) from error
    if not pieces:
        raise BadCheckpoint(f"the tokenizer {path} has no pieces")
    return pieces


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position`, seven bits a byte, and the position behind it."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")
