# SPDX-License-Identifier: Apache-2.0
"""Read RoboCasa's plans quickly: half of a reset went into parsing the same YAML in Python.

For each fixture of a kitchen RoboCasa parses the whole registry of that kind of fixture, some
ninety files in all. The parser in C that comes with PyYAML gives the same, seven times as fast.
Import this module inside `prepared_process`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, TextIO

import yaml


def read_plans_quickly() -> None:
    """Let RoboCasa's modules that read plans and styles parse them in C, where PyYAML has that."""
    from robocasa.models.scenes import kitchen_arena, scene_utils
    from robocasa.utils import env_utils

    if yaml.__with_libyaml__:
        for module in (kitchen_arena, scene_utils, env_utils):
            module.yaml = SimpleNamespace(safe_load=quick_load)


def quick_load(plan: TextIO | str) -> Any:  # noqa: ANN401 - YAML holds anything
    """Return what `yaml.safe_load` returns."""
    return yaml.load(plan, Loader=yaml.CSafeLoader)
