# SPDX-License-Identifier: Apache-2.0
"""In which order RoboTwin's tasks find the models of an object.

Five tasks (place_a2b_left, place_a2b_right, place_object_scale, place_object_stand,
put_object_cabinet) draw a model by its place in a list that `glob` makes, whose order is the file
system's own. A scene would then depend on the disk that its assets were copied to.
"""

from __future__ import annotations

import glob
from types import ModuleType


class SortedGlob:
    """Stands in for the module `glob` in a task, and sorts what it finds by name."""

    @staticmethod
    def glob(pattern: str) -> list[str]:
        return sorted(glob.glob(pattern))


def sort_listings(task_module: ModuleType) -> None:
    """Let this module of RoboTwin's list files by name. May be called again."""
    if hasattr(task_module, "glob"):
        task_module.glob = SortedGlob  # type: ignore[attr-defined]
