# SPDX-License-Identifier: Apache-2.0
"""The service's frames: msgpack, with arrays as maps of their bytes, dtype and shape.

The format is that of openpi's client library (openpi_client/msgpack_numpy.py). Objects are refused
in both directions: there is no pickle in it, and none can come in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

ARRAY = b"__ndarray__"
SCALAR = b"__npgeneric__"
PLAIN_KINDS = "biuf"
"""Booleans, integers and floating point: what an observation and its answer are made of."""


class BadFrame(ValueError):
    """Bytes that are no frame of this format."""


def pack(message: Mapping[str, Any]) -> bytes:
    """Return `message` as one binary frame, arrays in C order."""
    packed: bytes = msgpack.packb(message, default=_from_array)
    return packed


def unpack(frame: bytes) -> dict[Any, Any]:
    """Return the map that a binary frame holds; its arrays are copies. Raises `BadFrame`."""
    try:
        message = msgpack.unpackb(frame, object_hook=_to_array)
    # What is wrong with bytes, their meaning, or a number that is too large for its type.
    except (
        msgpack.UnpackException,
        ArithmeticError,
        ValueError,
        TypeError,
        RecursionError,
    ) as error:
        raise BadFrame(f"{len(frame)} bytes are no msgpack of this format: {error}") from error
    if not isinstance(message, dict):
        raise BadFrame(f"a frame holds a {type(message).__name__}; wanted a map")
    return message


def _from_array(value: object) -> object:
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError(f"a {type(value).__name__} cannot be sent")
    if value.dtype.kind not in PLAIN_KINDS:
        raise TypeError(f"values of type {value.dtype} cannot be sent")
    if isinstance(value, np.ndarray):
        return {
            ARRAY: True,
            b"data": value.tobytes(),
            b"dtype": value.dtype.str,
            b"shape": value.shape,
        }
    return {SCALAR: True, b"data": value.item(), b"dtype": value.dtype.str}


def _to_array(found: dict[Any, Any]) -> object:
    """Return what a map stands for: an array, a scalar, or itself."""
    if found.get(ARRAY) is True:
        shape = _shape(found.get(b"shape"))
        dtype = _dtype(found.get(b"dtype"))
        data = found.get(b"data")
        size = math.prod(shape) * dtype.itemsize
        if not isinstance(data, bytes) or len(data) != size:
            got = len(data) if isinstance(data, bytes) else type(data).__name__
            raise BadFrame(f"an array {dtype} {list(shape)} takes {size} bytes, not {got}")
        return np.frombuffer(data, dtype).reshape(shape).copy()
    if found.get(SCALAR) is True:
        return _dtype(found.get(b"dtype")).type(found.get(b"data"))
    return found


def _dtype(text: object) -> np.dtype[Any]:
    if not isinstance(text, str):
        raise BadFrame(f"{text!r} names no type of numbers")
    try:
        dtype: np.dtype[Any] = np.dtype(text)
    except (TypeError, ValueError) as error:
        raise BadFrame(f"there is no type of numbers {text!r}") from error
    if dtype.kind not in PLAIN_KINDS:
        raise BadFrame(f"values of type {text!r} are not accepted")
    return dtype


def _shape(shape: object) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(
        isinstance(side, int) and not isinstance(side, bool) and side >= 0 for side in shape
    ):
        raise BadFrame(f"{shape!r} is no shape of an array")
    return tuple(shape)
