# SPDX-License-Identifier: Apache-2.0
"""RoboCasa's kitchens: one task, and where it may take place.

Import this module inside `prepared_process`.
"""

from __future__ import annotations

from typing import Any

from robocasa.environments.kitchen.kitchen import REGISTERED_KITCHEN_ENVS
from robocasa.models.scenes.scene_registry import unpack_layout_ids, unpack_style_ids

from rpent_box.errors import BadOption, SimulatorError
from rpent_box_robocasa.moments import Moments
from rpent_box_robocasa.plugin import RobocasaOptions
from rpent_box_robocasa.robot import robot_arguments
from rpent_box_robocasa.scene import built_at_reset

TARGET_KITCHENS = [(number, number) for number in range(1, 11)]
PRETRAINING = -2
"""RoboCasa's own number for all layouts, or styles, of pretraining."""


def make_kitchen(task: str, options: RobocasaOptions, moments: Moments) -> Any:  # noqa: ANN401
    """Return RoboCasa's environment of `task`, in which nothing is built before the first reset.

    Raises `SimulatorError` for a task that the installed package lacks, and `BadOption` when no
    kitchen of the split has the layout and style that `options` ask for.
    """
    stock = REGISTERED_KITCHEN_ENVS.get(task)
    if stock is None:
        raise SimulatorError(
            f"the installed robocasa has no task {task}",
            hint="Install the pinned simulator again: rpent-box build robocasa",
        )
    environment = built_at_reset(stock, moments)(
        **robot_arguments(options.image_size),
        obj_instance_split=options.split,
        layout_and_style_ids=kitchens_of(options),
    )
    if not environment.layout_and_style_ids:
        raise BadOption(
            f"{task} cannot take place in layout {options.layout or 'any'}, style "
            f"{options.style or 'any'} of the {options.split} kitchens",
            hint="Leave out the platform's options layout and style.",
        )
    return environment


def kitchens_of(options: RobocasaOptions) -> list[tuple[int, int]]:
    """Return the (layout, style) pairs to draw from, in the order in which RoboCasa has them.

    Raises `BadOption` when there is none.
    """
    found = [
        (layout, style)
        for layout, style in _all_of(options.split)
        if options.layout in (0, layout) and options.style in (0, style)
    ]
    if not found:
        raise BadOption(
            f"no {options.split} kitchen has layout {options.layout or 'any'} and style "
            f"{options.style or 'any'}",
            hint="Target kitchens have layout and style 1 to 10, both the same number; those of "
            "pretraining any pair of 11 to 60.",
        )
    return found


def _all_of(split: str) -> list[tuple[int, int]]:
    if split == "target":
        return TARGET_KITCHENS
    layouts, styles = unpack_layout_ids(PRETRAINING), unpack_style_ids(PRETRAINING)
    return [(layout, style) for layout in layouts for style in styles]
