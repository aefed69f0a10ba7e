# SPDX-License-Identifier: Apache-2.0
"""A dictionary of tensors that was written with `pickle.dump`, read without PyTorch.

A tensor in such a file is a call of `torch._utils._rebuild_tensor_v2` on a storage, and the storage
a call of `torch.storage._load_from_bytes` on bytes that are, in turn, what `torch.save` wrote in
its old format: four pickles and the numbers. PyTorch would unpickle those bytes as well; here, both
layers are data (`pickles.py`). What such a file holds is put into no message: a few bytes of
containers within containers would become a text without end.
"""

from __future__ import annotations

import io
import math
import mmap
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.cosmos_policy.pickles import UnsafePickle, read_pickle
from rpent_box.errors import BadCheckpoint

LARGEST_FILE = 2 * 1024**3
"""Bytes. The published file has about a megabyte for each instruction."""
_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001


class Tensor(NamedTuple):
    """Numbers as they are stored."""

    dtype: str
    """`BF16`, then `numbers` are its bits as uint16; or `F32`."""
    numbers: NDArray[Any]


class _Storage(NamedTuple):
    dtype: str
    numbers: NDArray[Any]
    """[n]"""


class _Type(NamedTuple):
    """What stands for `torch.BFloat16Storage` and its like; cannot be called."""

    dtype: str
    layout: str


_TYPES = {
    "torch.BFloat16Storage": _Type("BF16", "<u2"),
    "torch.FloatStorage": _Type("F32", "<f4"),
}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return name → tensor. Raises `BadCheckpoint`, having called nothing that the file names."""
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise BadCheckpoint(f"{path} has {size} bytes; wanted at most {LARGEST_FILE}")
    try:
        # Mapped, because a file object makes room first for as much as the pickle says comes next.
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            found = read_pickle(cast("IO[bytes]", view), _NAMES)
    except UnsafePickle as error:
        raise BadCheckpoint(
            f"{path} is more than a dictionary of tensors: {error}. Nothing in it was run.",
            hint="Do not open this file with other programs; get it again from its publisher.",
        ) from error
    except ValueError as error:
        raise BadCheckpoint(
            f"{path} is not a pickled dictionary of tensors, or it is cut: {error}"
        ) from error
    if not isinstance(found, dict):
        raise BadCheckpoint(f"{path} holds a {type(found).__name__}; wanted a dictionary")
    for name, tensor in found.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise BadCheckpoint(
                f"{path} has {type(tensor).__name__} under {name!r}; wanted a tensor under a text"
            )
    return found


def _rebuild_tensor(
    storage: object, offset: object, shape: object, stride: object, *_: object
) -> Tensor:
    """Stand for `torch._utils._rebuild_tensor_v2`."""
    if not isinstance(storage, _Storage) or not isinstance(offset, int):
        raise ValueError("a tensor has no storage")
    lengths, steps = _counts(shape), _counts(stride)
    if len(lengths) != len(steps):
        raise ValueError(f"a tensor has shape {lengths} and strides {steps}")
    last = offset + sum((n - 1) * step for n, step in zip(lengths, steps, strict=True))
    if offset < 0 or 0 in lengths or last >= storage.numbers.size:
        raise ValueError("a tensor reaches beyond its storage")
    if math.prod(lengths) > storage.numbers.size:
        # Strides of zero: a few bytes that would become many gigabytes.
        raise ValueError("a tensor is larger than its storage")
    width = storage.numbers.itemsize
    view = np.lib.stride_tricks.as_strided(
        storage.numbers[offset:], lengths, [step * width for step in steps], writeable=False
    )
    return Tensor(storage.dtype, np.ascontiguousarray(view))


def _counts(value: object) -> tuple[int, ...]:
    if not isinstance(value, tuple) or not all(type(n) is int and n >= 0 for n in value):
        raise ValueError("a tensor has no shape")
    return value


def _load_storage(raw: object) -> _Storage:
    """Stand for `torch.storage._load_from_bytes`."""
    if not isinstance(raw, bytes):
        raise ValueError("a storage is no bytes")
    stream = io.BytesIO(raw)
    if read_pickle(stream, {}) != _MAGIC or read_pickle(stream, {}) != _PROTOCOL:
        raise ValueError("a storage is not in PyTorch's old format")
    machine = read_pickle(stream, {})
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise ValueError("a storage was written on a big-endian machine")
    reference = read_pickle(stream, _TYPES, persistent=_reference)
    keys = read_pickle(stream, {})
    if not isinstance(reference, _Reference) or keys != [reference.key]:
        raise ValueError("a storage does not hold itself")
    return _numbers(stream, reference)


class _Reference(NamedTuple):
    kind: _Type
    key: str
    numbers: int


def _reference(key: object) -> _Reference:
    """Read `("storage", type, key, where it was, count, None)`."""
    if not isinstance(key, tuple) or len(key) != 6 or key[0] != "storage" or key[5] is not None:
        raise ValueError("a storage has no name")
    _, kind, name, _, count, _ = key
    if not isinstance(kind, _Type) or not isinstance(name, str) or not isinstance(count, int):
        raise ValueError("a storage has no name")
    return _Reference(kind, name, count)


def _numbers(stream: io.BytesIO, reference: _Reference) -> _Storage:
    count = int.from_bytes(stream.read(8), "little", signed=True)
    raw = stream.read()
    layout = np.dtype(reference.kind.layout)
    if count != reference.numbers or len(raw) != count * layout.itemsize:
        raise ValueError(
            f"a storage has {len(raw)} bytes; wanted {reference.numbers} numbers of "
            f"{layout.itemsize}"
        )
    return _Storage(reference.kind.dtype, np.frombuffer(raw, layout))


def _no_hooks(*arguments: object) -> None:
    """Stand for the empty `collections.OrderedDict` of a tensor's hooks."""
    if arguments:
        raise ValueError("a tensor has hooks")


_NAMES = {
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch.storage._load_from_bytes": _load_storage,
    "collections.OrderedDict": _no_hooks,
}
