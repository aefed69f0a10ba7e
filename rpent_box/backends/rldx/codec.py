# SPDX-License-Identifier: Apache-2.0
"""How an RLDX server's messages are written down: msgpack, each array a `.npy` file inside it.

An array is {"__ndarray_class__": true, "as_npy": <what numpy.save writes>} (rldx/policy/
server_client.py, `MsgSerializer`). Nothing is ever unpickled. The bytes of a request are those that
the upstream client sends.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from tokenize import TokenError
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rpent_box.errors import ProtocolMismatch

Message: TypeAlias = Mapping[str, object]

ARRAY = "__ndarray_class__"
AS_NPY = "as_npy"
PLAIN_KINDS = "biuf"
"""Booleans, integers and floating point: what actions and their companions are made of."""


def encode(message: Message) -> bytes:
    """Return `message` as the bytes of one ZeroMQ frame. Arrays may be anywhere in it."""
    return msgspec.msgpack.encode(message, enc_hook=_write_array)


def decode(data: bytes) -> object:
    """Return what the server said, with its arrays.

    Raises `ProtocolMismatch` for anything that is no msgpack, or holds an array that is not whole.
    """
    try:
        return _with_arrays(msgspec.msgpack.decode(data))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolMismatch(
            f"an RLDX server's answer of {len(data)} bytes cannot be read: {error}",
            hint="Is it the ZeroMQ server of rlinf-rldx (rldx.eval.run_rldx_server) at this port?",
        ) from error


def _write_array(value: object) -> dict[str, object]:
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(f"an RLDX server cannot be sent {type(value).__name__}")
    file = io.BytesIO()
    np.save(file, value, allow_pickle=False)
    return {ARRAY: True, AS_NPY: file.getvalue()}


def _with_arrays(value: Any) -> Any:  # noqa: ANN401 - whatever msgpack can say
    if isinstance(value, list):
        return [_with_arrays(item) for item in value]
    if not isinstance(value, dict):
        return value
    if ARRAY not in value:
        return {key: _with_arrays(item) for key, item in value.items()}
    written = value.get(AS_NPY)
    if not isinstance(written, bytes):
        raise ValueError(f"an array without {AS_NPY}")
    return _array(written)


def _array(written: bytes) -> NDArray[Any]:
    """Return the array in a `.npy` file, read-only. Raises `ValueError` for anything else.

    Not `numpy.load`: that makes room for whatever shape a header tells of before it looks for the
    numbers, and opens zip files besides.
    """
    file = io.BytesIO(written)
    try:
        if npy.read_magic(file) != (1, 0):
            raise ValueError("an array in another version of the .npy format than 1.0")
        shape, in_columns, dtype = npy.read_array_header_1_0(file)
    # A header is a line of Python: these are what parsing one that is none raises.
    except (SyntaxError, TokenError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"an array whose header cannot be read: {error}") from error
    if dtype.kind not in PLAIN_KINDS:
        raise ValueError(f"an array of {dtype}, which holds no plain numbers")
    size, there = math.prod(shape) * dtype.itemsize, len(written) - file.tell()
    if min(shape, default=0) < 0 or size != there:
        raise ValueError(f"an array {dtype} {list(shape)} takes {size} bytes, not {there}")
    numbers = np.frombuffer(written, dtype, offset=file.tell()) if size else np.empty(0, dtype)
    return numbers.reshape(shape, order="F" if in_columns else "C")
