# SPDX-License-Identifier: Apache-2.0
"""What RoboTwin leaves behind in its own code from one scene to the next, taken away.

A default argument that is a list is one list for the whole life of a process. Where a table stands
off-centre (dump_bin_bigbin, put_bottles_dustbin), `get_cluttered_table` moves the limits of the
clutter by as much, in such a list: each scene starts from the limits that the last one left, until
nothing fits on the table any more. A scene would then depend on how many were built before it.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType

PACKAGE = "robotwin.envs"
_MUTABLE = (list, dict, set)


class FreshDefaults:
    """Remembers the default arguments of RoboTwin's functions as they were written."""

    def __init__(self) -> None:
        self._written: dict[FunctionType, tuple[object, ...]] = {}

    def restore(self) -> None:
        """Give every function that has been imported the defaults it was written with.

        Call it after an import, before what was imported is used, and before each scene.
        """
        for function in _functions():
            defaults = function.__defaults__ or ()
            if not any(isinstance(default, _MUTABLE) for default in defaults):
                continue
            written = self._written.setdefault(function, copy.deepcopy(defaults))
            function.__defaults__ = copy.deepcopy(written)


def _functions() -> Iterator[FunctionType]:
    for name, module in list(sys.modules.items()):
        if name == PACKAGE or name.startswith(f"{PACKAGE}."):
            yield from _functions_of(module)


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    for value in list(vars(module).values()):
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, type) and value.__module__.startswith(PACKAGE):
            yield from (
                member for member in vars(value).values() if isinstance(member, FunctionType)
            )
