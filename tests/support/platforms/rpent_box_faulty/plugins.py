# SPDX-License-Identifier: Apache-2.0
"""Plugins of the sound platform and the faulty ones: `faulty_<fault, with _ for ->`."""

from __future__ import annotations

from msgspec.structs import replace

from rpent_box.sim.platform import Platform, PlatformPlugin
from rpent_box_faulty.faults import FAULTS
from rpent_box_faulty.sound import META, SUITES, NoOptions, SoundPlatform

NAMES = ["faulty-nothing", *(f"faulty-{fault}" for fault in FAULTS)]
"""The first has no fault."""


def entry_points() -> str:
    """Return what makes them known, as the file `entry_points.txt` of a package has it."""
    module = "rpent_box_faulty.plugins"
    lines = [f"{name} = {module}:{name.replace('-', '_')}" for name in NAMES]
    return "\n".join(["[rpent_box.platforms]", *lines, ""])


def _plugin(name: str) -> PlatformPlugin:
    kind = FAULTS.get(name.removeprefix("faulty-"), SoundPlatform)

    def check(platform: Platform) -> list[str]:
        return ["physics: it settles elsewhere"] if name == "faulty-drifted" else []

    return PlatformPlugin(
        name=name,
        summary="A hand above a table",
        meta=replace(META, name=name),
        suites=SUITES,
        default_suite="near",
        options=NoOptions,
        open=lambda _options: kind(name),
        check=check,
        python="3.10",
        licence="Apache-2.0",
        memory="50 MB",
    )


def __getattr__(name: str) -> PlatformPlugin:
    plain = name.replace("_", "-")
    if plain not in NAMES:
        raise AttributeError(name)
    return _plugin(plain)
