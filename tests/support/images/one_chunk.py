# SPDX-License-Identifier: Apache-2.0
"""One scene and one chunk of small motions, in whatever Python or container runs this.

    python one_chunk.py PLATFORM SUITE TASK INIT_STATE SEED ANSWER [the platform's own options]

writes every array that is observed at first and after the chunk into ANSWER, an .npz file, and the
renderer's name with them. Needs nothing but rpent_box, the platform and numpy.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from platform_actions import small_actions

from rpent_box.contracts.observation import Observation
from rpent_box.options import parse_options
from rpent_box.plugins import find_platform
from rpent_box.sim.platform import Scene
from rpent_box.sim.serve import set_environment

STEPS = 5


def main(words: list[str]) -> None:
    name, suite, task, init_state, seed, answer = words[:6]
    plugin = find_platform(name)
    set_environment(plugin, threads=1)
    platform = plugin.open(parse_options(plugin.options, words[6:], program="one_chunk"))
    try:
        scene = Scene(suite=suite, task=int(task), init_state=int(init_state), seed=int(seed))
        first = platform.reset(scene)
        applied = platform.apply(small_actions(platform.meta.controls[0], first, STEPS))
        if applied.observation is None:
            raise RuntimeError(f"{name} was solved by small motions")
        seen = {**_arrays("first", first), **_arrays("after", applied.observation)}
        np.savez(answer, renderer=np.array(platform.renderer), **seen)
    finally:
        platform.close()


def _arrays(when: str, shown: Observation) -> dict[str, NDArray[np.generic]]:
    named = {**shown.images, **shown.proprio}
    return {f"{when} {name}": array for name, array in named.items()}


if __name__ == "__main__":
    main(sys.argv[1:])
