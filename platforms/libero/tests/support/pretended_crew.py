# SPDX-License-Identifier: Apache-2.0
"""The crew's players with pretended scenes; run as a program, it is `generate` with them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from pretended_scene import PretendedScene

from rpent_box_libero.teaching import crew, generate


class PretendedScenes:
    """In the place of the one real scene."""

    def __init__(self, *, dies_at: int = 0) -> None:
        self._left = dies_at

    def of(self, name: str) -> PretendedScene:
        self._left -= 1
        if self._left == 0:
            os._exit(9)  # without a word, as a simulator does that runs out of memory
        time.sleep(float(os.environ.get("PRETENDED_EPISODE_S", "0")))
        return PretendedScene(name=name, size=256)

    def close(self) -> None:
        pass


def record_pretended(setup_json: bytes, *, dies_at: int = 0) -> crew.Recorder:
    recorder = crew.record_with(setup_json)
    scenes: Any = PretendedScenes(dies_at=dies_at)
    recorder._scene = scenes
    return recorder


def record_until_third(setup_json: bytes) -> crew.Recorder:
    return record_pretended(setup_json, dies_at=3)


if __name__ == "__main__":
    import pretended_crew  # not __main__: the processes import it under its own name

    generate.record_with = pretended_crew.record_pretended
    raise SystemExit(generate.main(sys.argv[1:]))
