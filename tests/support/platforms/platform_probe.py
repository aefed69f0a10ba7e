# SPDX-License-Identifier: Apache-2.0
"""A whole life of a platform in a process of its own: several times open, play and close.

    python platform_probe.py PLATFORM LIVES ANSWER [the platform's own options]

writes what it saw to the file ANSWER. Whatever reaches this process's standard output was printed
by the platform.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import sys
from pathlib import Path

import msgspec
from msgspec import Struct
from platform_actions import small_actions, stay
from platform_subjects import Running

from rpent_box.contracts.observation import Observation
from rpent_box.errors import RpentBoxError
from rpent_box.options import parse_options
from rpent_box.plugins import find_platform
from rpent_box.sim.platform import Platform, PlatformPlugin

GL_CONTEXTS = {"GLContext", "OSMesaGLContext", "EGLGLContext", "MjRenderContextOffscreen"}
"""What holds a GL context and its buffers in MuJoCo's and robosuite's code."""


class Life(Struct, frozen=True, kw_only=True):
    """One opening, and what was left after its close."""

    shown: str
    """Hash of the first observation."""
    played: str
    """Hash of the one after some actions."""
    before_reset: str
    """Code of the error that acting before the first reset gave; empty: it gave none."""
    resident_mb: float
    threads: int
    files: int
    gl_contexts: int


class Answer(Struct, frozen=True, kw_only=True):
    """What the process saw."""

    lives: tuple[Life, ...]
    stdin: bool
    """Whether there was a standard input."""


def main(words: list[str]) -> None:
    name, lives, path = words[:3]
    plugin = find_platform(name)
    options = parse_options(plugin.options, words[3:], program="platform_probe")
    answer = Answer(
        lives=tuple(_live(plugin, plugin.open(options)) for _ in range(int(lives))),
        stdin=sys.stdin is not None,
    )
    Path(path).write_bytes(msgspec.json.encode(answer))


def _live(plugin: PlatformPlugin, platform: Platform) -> Life:
    running = Running(plugin, platform)
    before_reset = _act_too_early(running)
    seen = running.reset_for_one_camera()
    applied = platform.apply(small_actions(platform.meta.controls[0], seen, 2))
    if applied.observation is None:
        raise RuntimeError(f"{plugin.name} was solved by two small motions")
    shown, played = digest(seen), digest(applied.observation)
    platform.close()
    platform.close()
    del running, platform, seen, applied
    gc.collect()
    return Life(
        shown=shown,
        played=played,
        before_reset=before_reset,
        resident_mb=_resident_mb(),
        threads=len(os.listdir("/proc/self/task")),
        files=len(os.listdir("/proc/self/fd")),
        gl_contexts=sum(type(thing).__name__ in GL_CONTEXTS for thing in gc.get_objects()),
    )


def _act_too_early(running: Running) -> str:
    try:
        running.platform.apply(stay(running.platform.meta.controls[0]))
    except RpentBoxError as error:
        return error.code
    return ""


def digest(observation: Observation) -> str:
    """Return the hash of everything in `observation`."""
    found = hashlib.sha256(observation.instruction.encode())
    for named in (observation.images, observation.proprio):
        for name in sorted(named):
            found.update(name.encode())
            found.update(named[name].tobytes())
    return found.hexdigest()


def _resident_mb() -> float:
    """Return what is in use: what the allocator only keeps for later is given back first."""
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


if __name__ == "__main__":
    main(sys.argv[1:])
