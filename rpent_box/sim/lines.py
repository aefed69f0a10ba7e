# SPDX-License-Identifier: Apache-2.0
"""JSON Lines that survive a kill: a line is whole or it does not count, and none is ever changed.

A line ends in a newline, which is written last. What follows the last newline is the torn line of
a writer that was killed, or whose disk was full: readers skip it, and whoever writes on cuts it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import msgspec
from msgspec import Struct

from rpent_box.errors import OutputError

Line = TypeVar("Line", bound=Struct)

_TAIL = 1 << 16
"""Bytes that are read at once to find the last newline."""


class LineWriter:
    """Appends lines to a file. One writer per file; a line is on the disk when `append` returns.

    A context manager; close() may be called twice.
    """

    def __init__(self, path: Path) -> None:
        """Open `path`, made where needed, and cut a torn last line. Raises `OutputError`."""
        self.path = path
        self._descriptor: int | None = None
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            is_new = not path.exists()
            self._descriptor = os.open(path, flags, 0o666)
            self.cut = _cut_torn_line(self._descriptor)
            """Bytes of a torn last line that were cut."""
            self._end = os.fstat(self._descriptor).st_size
            """Where the next line begins."""
            if is_new:
                sync_folder(path.parent)
        except OSError as error:
            self.close()
            raise cannot_write(path, error) from error

    def __enter__(self) -> LineWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def append(self, line: Struct) -> None:
        """Write `line` and wait until the disk has it.

        Raises `OutputError` when it has not: then the file is as it was before, and the line does
        not count.
        """
        if self._descriptor is None:
            raise OutputError(f"{self.path} cannot be written: it is closed")
        data = msgspec.json.encode(line) + b"\n"
        try:
            self._require_whole(self._descriptor)
            write_all(self._descriptor, data)
            os.fsync(self._descriptor)
        except OSError as error:
            # To make a file shorter needs no space. Where even that fails, the next line tries it.
            with suppress(OSError):
                self._require_whole(self._descriptor)
            raise cannot_write(self.path, error) from error
        self._end += len(data)

    def close(self) -> None:
        """Close the file. May be called twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _require_whole(self, descriptor: int) -> None:
        """Cut what was written of a line that does not count, after an error or a signal."""
        if os.fstat(descriptor).st_size != self._end:
            os.ftruncate(descriptor, self._end)
            os.fsync(descriptor)


def read_lines(path: Path, kind: type[Line], *, what: str) -> list[Line]:
    """Return the whole lines of `path`, each of which is `what`, e.g. `an episode`.

    Raises `OutputError` for a file that cannot be read, or a whole line that is something else.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {_reason(error)}") from error
    decoder = msgspec.json.Decoder(kind)
    lines = []
    # What follows the last newline is torn, or empty.
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            lines.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise OutputError(f"{path}, line {number}, is not {what}: {error}") from error
    return lines


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte of `data`: the system may take them in parts. Raises `OSError`."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows which files are in `folder`. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and user-space file systems know no such thing for folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
            raise
    finally:
        os.close(descriptor)


def sync_files(folder: Path) -> None:
    """Wait until the disk has every file in `folder`, and their names. Raises `OSError`."""
    for path in _files(folder):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_folder(folder)


def cannot_write(path: Path, error: OSError | str) -> OutputError:
    """Return what to raise for `error`, met at `path`."""
    reason = error if isinstance(error, str) else _reason(error)
    return OutputError(
        f"{path} cannot be written: {reason}",
        hint="Make room, or choose a folder that you may write with --output.",
    )


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_file() and not path.is_symlink())


def _cut_torn_line(descriptor: int) -> int:
    """Shorten the file to the end of its last newline. Return how many bytes were cut."""
    size = os.fstat(descriptor).st_size
    end = _end_of_last_line(descriptor, size)
    if end < size:
        os.ftruncate(descriptor, end)
        os.fsync(descriptor)
    return size - end


def _end_of_last_line(descriptor: int, size: int) -> int:
    start = size
    while start > 0:
        begin = max(0, start - _TAIL)
        newline = os.pread(descriptor, start - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        start = begin
    return 0


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
