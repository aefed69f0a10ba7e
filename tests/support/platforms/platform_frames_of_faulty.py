# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin, `-p`: the faulty platforms' coarse pictures are those of the sound one."""

from __future__ import annotations

import platform_frames
from platform_subjects import first_scene
from rpent_box_faulty import plugins
from rpent_box_faulty.sound import SoundPlatform

_real = platform_frames.recorded


def _recorded(platform: str) -> dict[str, platform_frames.Coarse]:
    if platform not in plugins.NAMES:
        return _real(platform)
    seen = SoundPlatform().reset(first_scene(plugins.faulty_nothing))
    return {role: platform_frames.coarse(seen.images[role]) for role in ("primary", "wrist")}


platform_frames.recorded = _recorded
