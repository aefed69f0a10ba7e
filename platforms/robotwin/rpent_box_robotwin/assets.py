# SPDX-License-Identifier: Apache-2.0
"""RoboTwin's meshes and textures: a folder that is downloaded once and that many runs read.

    ROOT/.robotwin-assets.json              which revision was downloaded; absent where a folder
                                            was put together by hand
    ROOT/assets/embodiments/aloha-agilex/   the robot
    ROOT/assets/objects/001_bottle/ …       what tasks handle
    ROOT/assets/objects/objaverse/          what else lies on a cluttered table
    ROOT/assets/background_texture/unseen/  walls and tables of demo_randomized

`require_assets` looks at the folder, `require_task` at what one task needs in it. RoboTwin itself
goes on without an object that is not there, and fails later or scores a scene that lacks it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rpent_box.errors import AssetsMissing
from rpent_box_robotwin.suites import find_suite

if TYPE_CHECKING:
    from rpent_box_robotwin.plugin import RobotwinOptions

REVISION = "c15cc97be71e35244b6605d2d84c187f8565cc4d"
"""The revision of the assets that the pinned runtime downloads and accepts."""
_URDF_PATH = re.compile(r"""^urdf_path:\s*["']?([^"'\n]+?)["']?\s*$""", re.MULTILINE)
MANIFEST = ".robotwin-assets.json"
EMBODIMENT = "assets/embodiments/aloha-agilex"
OBJECTS = "assets/objects"
TEXTURES = "assets/background_texture"
CLUTTERED_SUITE = "demo_randomized"
DOWNLOAD = (
    'Fetch them (15 GB; 33 GB free while unpacking): python="$(rpent-box build --launcher process '
    'robotwin)" && "$(dirname "${python##*: }")/robotwin-download-assets" --output '
    "~/robotwin-assets, then: export ROBOTWIN_ASSETS_PATH=~/robotwin-assets. From the image: "
    "docs/platforms/robotwin.md"
)

TASK_OBJECTS: dict[str, tuple[str, ...]] = msgspec.json.decode(
    files("rpent_box_robotwin").joinpath("task_objects.json").read_bytes(),
    type=dict[str, tuple[str, ...]],
)
"""Task → the folders of objects that its code names, any of which a scene may show."""


def require_assets(options: RobotwinOptions) -> Path:
    """Return the root, the folder that holds `assets/`.

    The option may name the root or the `assets` folder in it. Raises `AssetsMissing` when it names
    neither, when a part is missing, or when it is another revision than the pinned one.
    """
    if not options.assets_path:
        raise AssetsMissing(
            "robotwin needs its meshes and textures, and no folder with them is named "
            "(--robotwin-assets-path, or ROBOTWIN_ASSETS_PATH)",
            hint=DOWNLOAD,
        )
    root = _root(Path(options.assets_path).expanduser().absolute())
    missing = [part for part in (EMBODIMENT, OBJECTS, TEXTURES) if not (root / part).is_dir()]
    missing = missing or list(_missing_of_robot(root))
    if missing:
        raise AssetsMissing(
            f"robotwin's assets in {root} are not whole: {', '.join(missing)} is missing",
            hint=DOWNLOAD,
        )
    _check_revision(root)
    return root


def assets_revision(root: Path) -> str:
    """Return the revision that `root` was downloaded as; empty where it does not say."""
    path = root / MANIFEST
    if not path.is_file():
        return ""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise AssetsMissing(f"{path} cannot be read: {error}", hint=DOWNLOAD) from error
    return found.revision


def require_task(root: Path, suite: str, task: str) -> None:
    """Raise `AssetsMissing`, naming the folder, when `task` of `suite` needs more than is there."""
    missing = next(_missing(root, suite, task), "")
    if not missing:
        return
    playable = playable_tasks(root, suite)
    raise AssetsMissing(
        f"{task} of {suite} needs {missing}, which is not in {root}",
        hint=f"With these assets {suite} can play: {', '.join(playable) or 'nothing'}. {DOWNLOAD}",
    )


def playable_tasks(root: Path, suite: str) -> list[str]:
    """Return the tasks of `suite` that need nothing but what is in `root`."""
    tasks = find_suite(suite).tasks
    return [task for task in tasks if next(_missing(root, suite, task), None) is None]


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What the download writes; its other fields are hashes of archives that are gone by then."""

    revision: str


def _missing_of_robot(root: Path) -> Iterator[str]:
    """Yield what the robot's own folder lacks, as paths below `root`."""
    described = root / EMBODIMENT / "config.yml"
    if not described.is_file():
        yield f"{EMBODIMENT}/config.yml"
        return
    named = _URDF_PATH.search(described.read_text(encoding="utf-8", errors="replace"))
    if named is None:
        yield f"urdf_path in {EMBODIMENT}/config.yml"
    elif not (root / EMBODIMENT / named[1]).is_file():
        yield f"{EMBODIMENT}/{named[1]}"


def _root(folder: Path) -> Path:
    if not folder.is_dir():
        raise AssetsMissing(f"there is no folder {folder} with robotwin's assets", hint=DOWNLOAD)
    if (folder / "assets").is_dir():
        return folder
    if (folder / "embodiments").is_dir():
        if folder.name == "assets":
            return folder.parent
        raise AssetsMissing(
            f"{folder} holds what robotwin looks for in a folder called assets",
            hint="Call it assets, and give it, or the folder above it.",
        )
    raise AssetsMissing(
        f"{folder} holds no robotwin assets: neither assets/embodiments nor embodiments is in it",
        hint=DOWNLOAD,
    )


def _check_revision(root: Path) -> None:
    found = assets_revision(root)
    if found not in ("", REVISION):
        raise AssetsMissing(
            f"robotwin's assets in {root} are revision {found[:12]}; the pinned runtime wants "
            f"{REVISION[:12]}, and others may place objects elsewhere",
            hint=f"Download into an empty folder. {DOWNLOAD}",
        )


def _missing(root: Path, suite: str, task: str) -> Iterator[str]:
    """Yield what `task` needs and `root` lacks, as paths below `root`."""
    for name in TASK_OBJECTS[task]:
        if not _holds_files(root / OBJECTS / name):
            yield f"{OBJECTS}/{name}"
    if suite == CLUTTERED_SUITE:
        # With eval_mode on, as here, RoboTwin draws its backgrounds from the unseen ones.
        if not _holds_files(root / TEXTURES / "unseen"):
            yield f"{TEXTURES}/unseen"
        for name in ("objaverse/list.json", "same.json"):
            if not (root / OBJECTS / name).is_file():
                yield f"{OBJECTS}/{name}"


def _holds_files(folder: Path) -> bool:
    return folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
