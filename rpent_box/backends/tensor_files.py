# SPDX-License-Identifier: Apache-2.0
"""What weights' files say about themselves, read without a framework and without unpickling."""

from __future__ import annotations

import io
import math
import os
import pickletools
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from rpent_box.errors import BadCheckpoint

LARGEST_HEADER = 100 * 1024 * 1024
LARGEST_PICKLE = 512 * 1024 * 1024
"""Of the names in a PyTorch file; its numbers lie beside them."""
MOST_OPCODES = 5_000_000
"""Of the same: a few seconds' worth. The largest models have some ten thousand tensors."""
MOST_AXES = 64
"""Of a tensor: more than any framework allows."""
_COPY_AGAIN = "Copy the file again, and compare its size with the original's."
_TEXT_OPCODES = {
    "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE",
    "SHORT_BINSTRING", "BINSTRING", "STRING",
}  # fmt: skip
_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1,
    "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8,
}  # fmt: skip
_Count: TypeAlias = Annotated[int, Meta(ge=0)]


class TensorEntry(Struct, frozen=True, kw_only=True):
    """One tensor of a safetensors file."""

    dtype: str
    """As the format spells it: `F32`, `BF16`, …"""
    shape: tuple[int, ...]


class _HeaderEntry(TensorEntry, frozen=True, kw_only=True):
    """The same, with where it lies in the file."""

    shape: Annotated[tuple[_Count, ...], Meta(max_length=MOST_AXES)]
    data_offsets: tuple[_Count, _Count]
    """Of its first byte and behind its last, counted from the header's end."""


class SafetensorsHeader(Struct, frozen=True, kw_only=True):
    """What a safetensors file says about itself."""

    tensors: dict[str, TensorEntry]
    metadata: dict[str, str]


class TorchFile(Struct, frozen=True, kw_only=True):
    """What is known of a file that torch.save wrote."""

    layout: Literal["zip", "legacy"]
    """`zip`: its directory stands at its end, so that it is whole. `legacy`: one stream of pickles,
    of which nobody can say whether it is whole without loading it."""
    names: frozenset[str]
    """Every text constant in it: the keys of its dictionaries among them, at any depth."""


def read_safetensors_header(path: str | Path, *, role: str = "weights") -> SafetensorsHeader:
    """Return names, dtypes and shapes. Raises `BadCheckpoint` for a cut or foreign file."""
    path = Path(path)
    with _opened(path, role) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 10 or not 2 <= length <= LARGEST_HEADER:
            raise BadCheckpoint(f"the {role} {path} is not a safetensors file")
        if 8 + length > size:
            raise _cut(path, role, f"its header alone takes {8 + length} bytes, it has {size}")
        entries, metadata = _parse_header(file.read(length), path, role)
    _require_size(path, role, wanted=8 + length + _end_of_data(entries, path, role), size=size)
    return SafetensorsHeader(
        tensors={
            name: TensorEntry(dtype=entry.dtype, shape=entry.shape)
            for name, entry in entries.items()
        },
        metadata=metadata,
    )


def read_torch_file(path: str | Path, *, role: str = "weights") -> TorchFile:
    """Return the layout of a file that torch.save wrote, and the names in it; executes nothing.

    Raises `BadCheckpoint` for a cut or foreign file.
    """
    path = Path(path)
    with _opened(path, role) as file:
        start = file.read(4)
        file.seek(0)
        if start.startswith(b"PK"):
            return TorchFile(layout="zip", names=_names_in_zip(file, path, role))
        if start.startswith(b"\x80"):
            return TorchFile(layout="legacy", names=_names_in_legacy(file, path, role))
    raise BadCheckpoint(
        f"the {role} {path} was not written by torch.save: it starts with {start!r}"
    )


def require_names(
    there: Iterable[str], wanted: Iterable[str], *, path: str | Path, role: str
) -> None:
    """Refuse weights without the names that a model reads. Raises `BadCheckpoint`."""
    names = set(there)
    missing = [name for name in wanted if name not in names]
    if missing:
        listed = ", ".join(sorted(names)[:8]) or "none"
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise BadCheckpoint(
            f"the {role} {path} has no {' and no '.join(missing[:3])}{more}; its names are: "
            f"{listed}, …",
            hint="This file may belong to another model or training stage.",
        )


def _parse_header(
    raw: bytes, path: Path, role: str
) -> tuple[dict[str, _HeaderEntry], dict[str, str]]:
    try:
        parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        metadata = parts.pop("__metadata__", msgspec.Raw(b"null"))
        return (
            {name: _decode_entry(name, part) for name, part in parts.items()},
            msgspec.json.decode(metadata, type=dict[str, str] | None) or {},
        )
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadCheckpoint(f"the {role} {path} is not a safetensors file: {error}") from error


def _decode_entry(name: str, part: msgspec.Raw) -> _HeaderEntry:
    entry = msgspec.json.decode(part, type=_HeaderEntry)
    start, end = entry.data_offsets
    width = _BYTES.get(entry.dtype)
    if width is not None and end - start != math.prod(entry.shape) * width:
        raise ValueError(
            f"{name} is {entry.dtype} {list(entry.shape)}, and has {end - start} bytes"
        )
    return entry


def _end_of_data(entries: dict[str, _HeaderEntry], path: Path, role: str) -> int:
    """Return where the last tensor ends. Each begins where another ended, as the format has it."""
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        if entry.data_offsets[0] != end or entry.data_offsets[1] < end:
            raise BadCheckpoint(
                f"the {role} {path} is not a safetensors file: {name} lies at "
                f"{list(entry.data_offsets)}, and the tensor before it ends at {end}"
            )
        end = entry.data_offsets[1]
    return end


def _require_size(path: Path, role: str, *, wanted: int, size: int) -> None:
    if size < wanted:
        raise _cut(path, role, f"it has {size} of {wanted} bytes")
    if size > wanted:
        raise BadCheckpoint(
            f"the {role} {path} has {size - wanted} bytes more than its header tells",
            hint=_COPY_AGAIN,
        )


def _names_in_zip(file: IO[bytes], path: Path, role: str) -> frozenset[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            pickles = [entry for entry in archive.infolist() if _is_pickle(entry)]
            if not pickles:
                raise BadCheckpoint(
                    f"the {role} {path} was not written by torch.save: it is another zip file"
                )
            if pickles[0].file_size > LARGEST_PICKLE:
                raise BadCheckpoint(f"the {role} {path} has {pickles[0].file_size} bytes of names")
            _require_entries_inside(archive, path, role)
            with archive.open(pickles[0]) as stream:
                # No more than is announced, so that a file which unpacks to more fails its check.
                raw = stream.read(pickles[0].file_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise _cut(path, role, f"the zip file is not whole ({error})") from error
    return _text_constants(io.BytesIO(raw), 1, path, role)


def _require_entries_inside(archive: zipfile.ZipFile, path: Path, role: str) -> None:
    """Refuse a file with a hole: what the directory tells must lie before the directory."""
    for entry in archive.infolist():
        if entry.header_offset + 30 + entry.compress_size > archive.start_dir:
            raise _cut(path, role, f"{entry.filename} would lie outside of it")


def _is_pickle(entry: zipfile.ZipInfo) -> bool:
    # PyTorch stores without packing; what it can unpack besides is deflate.
    packings = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    is_data = entry.filename.count("/") == 1 and entry.filename.endswith("/data.pkl")
    return is_data and entry.compress_type in packings


def _names_in_legacy(file: IO[bytes], path: Path, role: str) -> frozenset[str]:
    # A mark, a version, what the machine was like, and then the object that was saved.
    return _text_constants(file, 4, path, role)


def _text_constants(stream: IO[bytes], pickles: int, path: Path, role: str) -> frozenset[str]:
    """Return the texts in the last of `pickles`, which follow each other in `stream`."""
    names: set[str] = set()
    left = MOST_OPCODES
    try:
        for _ in range(pickles):
            names.clear()
            for opcode, argument, _ in pickletools.genops(stream):
                left -= 1
                if left < 0:
                    raise BadCheckpoint(
                        f"the {role} {path} is no model's weights: its names take more than "
                        f"{MOST_OPCODES} steps to read"
                    )
                if opcode.name in _TEXT_OPCODES:
                    names.add(str(argument))
    # A length that is made up asks for more memory than there is.
    except (ValueError, EOFError, MemoryError, OverflowError) as error:
        why = str(error) or type(error).__name__
        raise _cut(path, role, f"its names cannot be read ({why})") from error
    return frozenset(names)


def _opened(path: Path, role: str) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise BadCheckpoint(f"the {role} {path} cannot be read: {error.strerror}") from error


def _cut(path: Path, role: str, why: str) -> BadCheckpoint:
    return BadCheckpoint(f"the {role} {path} is cut or damaged: {why}", hint=_COPY_AGAIN)
