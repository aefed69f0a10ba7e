# SPDX-License-Identifier: Apache-2.0
"""Shared memory with one owner, who creates, sizes, locks and removes it.

Segments come from posix_ipc. (`multiprocessing.shared_memory` would unlink a live segment as soon
as any unrelated reader exits.) Where `/dev/shm` is not the writer's to use, a file in a tmpfs
directory serves: the same mapping under another path.

The owner holds `flock(LOCK_EX)` on the segment for as long as it lives, however it dies; a segment
whose lock can be taken is dead and may be removed by anyone who may write its directory.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import posix_ipc

from rpent_box.errors import SharedMemoryFull, TransportError
from rpent_box.transport.forks import abandon_in_children
from rpent_box.transport.lease import lock_exclusively
from rpent_box.transport.paths import SHM

_MODE = 0o600


class Segment:
    """The owner's side. A context manager; close() may be called twice."""

    def __init__(
        self, name: str, size: int, descriptor: int, lock: int, paths: Sequence[Path]
    ) -> None:
        """Map `descriptor`, which the caller closes; keep `lock`, another opening of the file.

        A mapping holds a descriptor of its own, which a forked child could not close: the lock
        must not be on it.
        """
        self.name = name
        self.size = size
        self._descriptor: int | None = lock
        self._paths = tuple(paths)
        # MAP_POPULATE: the first write to a fresh 393 KB range costs 6.5 us instead of 118.
        self._map = mmap.mmap(
            descriptor, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ | mmap.PROT_WRITE
        )
        self.buffer: memoryview = memoryview(self._map)
        """All of it, writable. `np.frombuffer` arrays of it keep it mapped after close()."""
        abandon_in_children(self)

    @classmethod
    def create(
        cls, name: str, size: int, *, grants: Path | None = None, directory: Path | None = None
    ) -> Segment:
        """Create `name` (`/rpent-box.<box>.<client>`) with `size` bytes, all of them allocated.

        `grants` is a directory to hard-link it into; `directory` makes it a file there instead of
        a posix_ipc segment. Raises `SharedMemoryFull`, or `TransportError` when the name is taken.
        """
        home = directory or SHM
        paths = [home / name.lstrip("/")]
        with ExitStack() as undo:
            descriptor = _create_file(name, directory)
            mapped = undo.enter_context(os.fdopen(descriptor, "r+b", buffering=0))
            undo.callback(_unlink, paths)
            lock = os.open(paths[0], os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            undo.callback(os.close, lock)
            if not lock_exclusively(lock):
                raise TransportError(f"somebody else holds the lock of the new segment {name}")
            _allocate(descriptor, size, home)
            if grants is not None and grants / paths[0].name != paths[0]:
                paths.append(_link(paths[0], grants))
            segment = cls(name, size, descriptor, lock, paths)
            undo.pop_all()
        mapped.close()
        return segment

    def abandon(self) -> None:
        """Let go of the lock's descriptor and remove nothing: for forked children."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def close(self) -> None:
        """Remove every name of the segment, then let go of the memory."""
        if self._descriptor is None:
            return
        _unlink(self._paths)
        _close_map(self.buffer, self._map)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> Segment:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SegmentView:
    """A reader's side: mapped read-only. A context manager; close() may be called twice."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self.size = os.fstat(descriptor).st_size
        if self.size == 0:
            os.close(descriptor)
            raise TransportError(f"the segment {name} is empty: its owner has not sized it")
        self._descriptor: int | None = descriptor
        self._map = mmap.mmap(
            descriptor, self.size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ
        )
        self.buffer: memoryview = memoryview(self._map)
        """All of it, read-only. `np.frombuffer` arrays of it stay valid after close()."""

    @classmethod
    def open(cls, name: str, *, search: Sequence[Path] = ()) -> SegmentView:
        """Open `name` in the first of `search` that has it, else as a posix_ipc segment.

        Raises `TransportError` when it is nowhere. The caller decides which names may be opened.
        """
        if "/" in name.lstrip("/") or name.lstrip("/") in ("", ".", ".."):
            raise TransportError(f"{name!r} is not a segment's name")
        for directory in search:
            descriptor = _open_file(directory / name.lstrip("/"))
            if descriptor is not None:
                return cls(name, descriptor)
        try:
            return cls(name, posix_ipc.SharedMemory(name, flags=0, read_only=True).fd)
        except posix_ipc.ExistentialError as error:
            raise TransportError(
                f"the segment {name} is not here: its owner has closed it, or this box does not "
                "grant it"
            ) from error
        except (posix_ipc.PermissionsError, PermissionError) as error:
            raise TransportError(f"the segment {name} may not be read: {error}") from error

    def is_whole(self) -> bool:
        """Tell whether the file still has the mapped size: touching a cut one means SIGBUS."""
        return self._descriptor is not None and os.fstat(self._descriptor).st_size >= self.size

    def owner_is_gone(self) -> bool:
        """Tell whether nobody holds the owner's lock any more."""
        if self._descriptor is None:
            return True
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return True

    def close(self) -> None:
        """Let go. With arrays still alive, the mapping goes when the last of them does."""
        if self._descriptor is None:
            return
        _close_map(self.buffer, self._map)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> SegmentView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def segment_is_dead(path: Path) -> bool:
    """Tell whether the segment at `path` has no living owner. A missing one is not dead: gone."""
    descriptor = _open_file(path)
    if descriptor is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _create_file(name: str, directory: Path | None) -> int:
    try:
        if directory is None:
            return int(posix_ipc.SharedMemory(name, posix_ipc.O_CREX, mode=_MODE).fd)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(directory / name.lstrip("/"), flags, _MODE)
    except (posix_ipc.ExistentialError, FileExistsError) as error:
        raise TransportError(
            f"the segment {name} exists already",
            hint="Remove what a killed run left behind: rpent-box gc",
        ) from error
    except OSError as error:
        raise TransportError(f"cannot create the segment {name}: {error}") from error


def _open_file(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _allocate(descriptor: int, size: int, home: Path) -> None:
    try:
        # ftruncate alone would end in SIGBUS at the first touch of a page that is not there.
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.ENOMEM):
            raise TransportError(f"cannot allocate {size} bytes in {home}: {error}") from error
        room = os.statvfs(home)
        free = room.f_bavail * room.f_frsize
        raise SharedMemoryFull(
            f"shared memory is full: {_mib(size)} are needed in {home}, {_mib(free)} are free",
            hint="Remove what killed runs left: rpent-box gc. Or make it larger: "
            f"mount -o remount,size=1G {home} (in Docker: --shm-size 1g)",
        ) from error


def _link(path: Path, grants: Path) -> Path:
    try:
        os.link(path, grants / path.name)
    except OSError as error:
        raise TransportError(
            f"cannot grant the segment {path.name} in {grants}: {error.strerror}",
            hint="Is the box still there? See: rpent-box doctor",
        ) from error
    return grants / path.name


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _close_map(buffer: memoryview, mapping: mmap.mmap) -> None:
    try:
        buffer.release()
        mapping.close()
    except BufferError:
        # Arrays still look into it. They keep the mapping alive; it goes with the last of them.
        return


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
