# SPDX-License-Identifier: Apache-2.0
"""Draws one frame and compares a known scene: `python -m rpent_box.sim.check PLATFORM [OPTIONS]`.

Prints one line of JSON, a `PlatformCheck`, as its last, and on stderr the same for people. Runs in
the simulator's own environment or image; `rpent-box doctor` starts it there. It takes the
platform's own options. With `--golden` only the known scene is compared, which needs no assets: so
ends the build of an image.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from rpent_box.errors import AssetsMissing, RpentBoxError
from rpent_box.options import OptionParser, options_from
from rpent_box.sim.known_scene import draws_in_software
from rpent_box.sim.platform import Platform, PlatformPlugin, Scene
from rpent_box.sim.serve import add_platform, set_environment

PROGRAM = "python -m rpent_box.sim.check"
SEED = 7


class PlatformCheck(Struct, frozen=True, kw_only=True):
    """What came of it."""

    platform: str
    error: str = ""
    """Why no frame could be drawn. Everything below is empty then."""
    missing: str = ""
    """Which assets its tasks need and are not here: of those no scene was drawn, and `hint` says
    what fetches them."""
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
        return draws_in_software(self.renderer)


def check_platform(
    plugin: PlatformPlugin, options: Struct | None = None, *, only_golden: bool = False
) -> PlatformCheck:
    """Open `plugin`'s simulator, draw a frame and compare what is recorded.

    `options` is an instance of `plugin.options`; None: the defaults. With `only_golden` no scene of
    its tasks is drawn.
    """
    began = time.monotonic()
    try:
        platform = plugin.open(plugin.options() if options is None else options)
        try:
            opened = PlatformCheck(
                platform=plugin.name,
                open_s=time.monotonic() - began,
                renderer=platform.renderer,
                versions=platform.versions,
            )
            return _compare(
                plugin, platform, opened if only_golden else _draw(plugin, platform, opened)
            )
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
    words = list(sys.argv[1:] if words is None else words)
    parser = _parser()
    try:
        plugin = add_platform(parser, words)
        if plugin is None or "--help" in words or "-h" in words:
            parser.print_help()
            return 0
        known = parser.parse_args(words)
        options = options_from(plugin.options, vars(known))
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    set_environment(plugin, threads=1)
    result = check_platform(plugin, options, only_golden=known.golden)
    if known.golden and not result.error and not result.compared:
        result = msgspec.structs.replace(
            result, error=f"{plugin.name} has no recorded scene to be compared with"
        )
    sys.stderr.write("".join(f"{line}\n" for line in _in_words(result)))
    # The simulator may have written half a line.
    sys.stdout.write("\n" + msgspec.json.encode(result).decode() + "\n")
    sys.stdout.flush()
    return 1 if result.error or result.differs else 0


def _in_words(result: PlatformCheck) -> list[str]:
    if result.error:
        return [*result.detail.splitlines(), result.error, *([result.hint] if result.hint else [])]
    here = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    if result.differs:
        return [
            f"{result.platform}, here with {here}, drawn by {result.renderer}:",
            *result.differs,
        ]
    known = "the known scene is as recorded, " if result.compared else ""
    return [f"{result.platform}: {known}drawn by {result.renderer}"]


def _draw(plugin: PlatformPlugin, platform: Platform, check: PlatformCheck) -> PlatformCheck:
    """Draw the first scene of the default suite whose assets are here, if there is one."""
    missing: AssetsMissing | None = None
    for scene in _scenes(plugin):
        began = time.monotonic()
        try:
            observation = platform.reset(scene)
        except AssetsMissing as error:
            missing = missing or error
            continue
        return msgspec.structs.replace(
            check,
            reset_s=time.monotonic() - began,
            blank=tuple(
                role for role, image in observation.images.items() if image.min() == image.max()
            ),
        )
    if missing is None:
        return check
    return msgspec.structs.replace(check, missing=missing.message, hint=missing.hint)


def _compare(plugin: PlatformPlugin, platform: Platform, check: PlatformCheck) -> PlatformCheck:
    if plugin.check is None:
        return check
    return msgspec.structs.replace(check, compared=True, differs=tuple(plugin.check(platform)))


def _scenes(plugin: PlatformPlugin) -> Iterator[Scene]:
    suite = next(one for one in plugin.suites if one.name == plugin.default_suite)
    for task in range(len(suite.tasks)):
        yield Scene(suite=suite.name, task=task, init_state=suite.first_init_state, seed=SEED)


def _parser() -> OptionParser:
    parser = OptionParser(prog=PROGRAM, description=__doc__, allow_abbrev=False)
    parser.add_argument("platform", metavar="PLATFORM")
    parser.add_argument(
        "--golden", action="store_true", help="compare the known scene alone; needs no assets"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
