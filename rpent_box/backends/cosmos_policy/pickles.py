# SPDX-License-Identifier: Apache-2.0
"""Read a pickle as data: what it names is looked up in a table of our own, never imported."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Mapping
from typing import IO, TypeAlias

Names: TypeAlias = Mapping[str, object]
"""`module.attribute`, as pickles spell it → what stands for it here."""

# What Python's reader raises for a file that is no pickle or is cut, besides `ValueError`.
_DAMAGE = (
    AttributeError, EOFError, LookupError, MemoryError, OverflowError, RecursionError, TypeError,
    pickle.UnpicklingError, struct.error,
)  # fmt: skip


class UnsafePickle(Exception):
    """The file asks for more than data."""


def read_pickle(
    stream: IO[bytes], names: Names, persistent: Callable[[object], object] | None = None
) -> object:
    """Return what the next pickle in `stream` holds, and leave `stream` after it.

    `persistent` stands for what the file stores outside of itself. Raises `UnsafePickle` for a name
    that is not in the table, `ValueError` for a file that is no pickle or is cut.
    """
    try:
        return _Reader(stream, names, persistent).load()
    except _DAMAGE as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


# The reader that is written in Python: it remembers in a dictionary, where the other one makes room
# for as much as the file says.
class _Reader(pickle._Unpickler):
    def __init__(
        self, stream: IO[bytes], names: Names, persistent: Callable[[object], object] | None
    ) -> None:
        super().__init__(stream)
        self._names = names
        self._persistent = persistent

    def find_class(self, module: str, name: str) -> object:
        """Return what stands for a name: only that can be called."""
        wanted = f"{module}.{name}"
        if wanted not in self._names:
            raise UnsafePickle(
                f"it names {wanted[:80]}, which is not part of a dictionary of tensors"
            )
        return self._names[wanted]

    def get_extension(self, code: int) -> None:
        """Refuse what is not named in the file but in a list of this process."""
        raise UnsafePickle(f"it names the registered class {code}")

    def persistent_load(self, pid: object) -> object:
        """Return what stands for something outside of the file."""
        if self._persistent is None:
            raise UnsafePickle("it refers to something outside of itself")
        return self._persistent(pid)
