# SPDX-License-Identifier: Apache-2.0
"""Draws one frame and compares a known scene: `python -m rpent_box.sim.check PLATFORM`.

Prints one line of JSON, a `PlatformCheck`, as its last. Runs in the simulator's own environment or
image; `rpent-box doctor` starts it there.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from rpent_box.errors import RpentBoxError
from rpent_box.plugins import find_platform
from rpent_box.sim.platform import Platform, PlatformPlugin, Scene
from rpent_box.sim.serve import set_environment

SEED = 7
_SOFTWARE = ("osmesa", "llvmpipe", "softpipe", "swrast", "lavapipe")


class PlatformCheck(Struct, frozen=True, kw_only=True):
    """What came of it."""

    platform: str
    error: str = ""
    """Why no frame could be drawn. Everything below is empty then."""
    hint: str = ""
    detail: str = ""
    renderer: str = ""
    versions: dict[str, str] = {}
    open_s: float = 0.0
    """Importing the simulator."""
    reset_s: float = 0.0
    """Building a scene, and drawing it once from each camera."""
    blank: tuple[str, ...] = ()
    """Cameras whose frame is of one colour."""
    differs: tuple[str, ...] = ()
    """What is not as recorded."""
    compared: bool = False
    """Whether anything is recorded for this platform."""

    @property
    def in_software(self) -> bool:
        """Whether the frame was drawn without a GPU."""
        return any(name in self.renderer.lower() for name in _SOFTWARE)


def check_platform(plugin: PlatformPlugin) -> PlatformCheck:
    """Open `plugin`'s simulator, draw a frame and compare what is recorded."""
    began = time.monotonic()
    try:
        platform = plugin.open(plugin.options())
        try:
            return _look(plugin, platform, open_s=time.monotonic() - began)
        finally:
            platform.close()
    except RpentBoxError as error:
        return PlatformCheck(
            platform=plugin.name, error=error.message, hint=error.hint, detail=error.detail
        )
    except Exception as error:  # noqa: BLE001 - a simulator may raise anything; it is the finding
        return PlatformCheck(
            platform=plugin.name,
            error=f"{type(error).__name__}: {error}",
            detail=traceback.format_exc(),
        )


def main(words: Sequence[str] | None = None) -> int:
    """Check one platform; return 0 when a frame was drawn and nothing differs, 1, or 2."""
    words = sys.argv[1:] if words is None else words
    if len(words) != 1:
        sys.stderr.write("usage: python -m rpent_box.sim.check PLATFORM\n")
        return 2
    try:
        plugin = find_platform(words[0])
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    set_environment(plugin, threads=1)
    result = check_platform(plugin)
    # The simulator may have written half a line.
    sys.stdout.write("\n" + msgspec.json.encode(result).decode() + "\n")
    sys.stdout.flush()
    return 1 if result.error or result.differs else 0


def _look(plugin: PlatformPlugin, platform: Platform, *, open_s: float) -> PlatformCheck:
    began = time.monotonic()
    observation = platform.reset(_scene(plugin))
    reset_s = time.monotonic() - began
    differs = plugin.check(platform) if plugin.check is not None else []
    return PlatformCheck(
        platform=plugin.name,
        renderer=platform.renderer,
        versions=platform.versions,
        open_s=open_s,
        reset_s=reset_s,
        blank=tuple(
            role for role, image in observation.images.items() if image.min() == image.max()
        ),
        differs=tuple(differs),
        compared=plugin.check is not None,
    )


def _scene(plugin: PlatformPlugin) -> Scene:
    return Scene(suite=plugin.default_suite, task=0, init_state=0, seed=SEED)


if __name__ == "__main__":
    sys.exit(main())
