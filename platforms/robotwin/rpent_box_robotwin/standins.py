# SPDX-License-Identifier: Apache-2.0
"""Modules that RoboTwin's runtime imports and that nothing done here draws anything from.

It imports PyTorch to seed it (only cuRobo, its CUDA planner, computes with it), Open3D to save
point clouds, and tries cuRobo and PyTorch3D, with a traceback on the screen where they are missing.
An environment without them is a gigabyte smaller, imports in half the time, and behaves alike
everywhere, so these stand in for them whether they are installed or not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from rpent_box.errors import SimulatorError


class StandIn(ModuleType):
    """A module that has what it was given, and says so when it is asked for more."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # what the import system and `inspect` look for
            raise AttributeError(name)
        raise SimulatorError(
            f"RoboTwin's runtime asked for {self.__name__}.{name}, which nothing here should need",
            hint="Only point clouds and the cuRobo planner do, and neither is on offer.",
        )


@contextmanager
def stand_ins() -> Iterator[None]:
    """Let the runtime be imported inside; afterwards every name means what it did before."""
    names: dict[str, ModuleType | None] = {
        "torch": _module("torch", manual_seed=_ignore_seed),
        "torch.multiprocessing": _module("torch.multiprocessing"),
        "open3d": _module("open3d"),
        "curobo": None,  # None: an import of it fails as if it were not installed
        "pytorch3d": None,
    }
    before = {name: sys.modules[name] for name in names if name in sys.modules}
    sys.modules.update(names)  # type: ignore[arg-type]
    torch = names["torch"]
    vars(torch)["multiprocessing"] = names["torch.multiprocessing"]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)


def _module(name: str, **holds: Callable[[int], None]) -> StandIn:
    module = StandIn(name)
    vars(module).update(holds)
    return module


def _ignore_seed(_seed: int) -> None:
    """Nothing draws from PyTorch's generator."""
