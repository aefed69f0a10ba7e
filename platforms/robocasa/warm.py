# SPDX-License-Identifier: Apache-2.0
"""Compile what robosuite compiles at first use, while the image is built: a start is quicker then.

Numba keeps the results in $NUMBA_CACHE_DIR. On another kind of processor it compiles them anew.
"""

from __future__ import annotations

import robosuite
from robosuite.controllers import load_composite_controller_config


def main() -> None:
    environment = robosuite.make(
        "Lift",
        robots="PandaOmron",
        controller_configs=load_composite_controller_config(controller=None, robot="PandaOmron"),
        has_renderer=False,
        camera_heights=16,
        camera_widths=16,
    )
    environment.reset()
    environment.step([0.0] * environment.action_dim)
    environment.close()


if __name__ == "__main__":
    main()
