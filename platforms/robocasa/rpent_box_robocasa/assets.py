# SPDX-License-Identifier: Apache-2.0
"""Whether a folder holds what kitchens are built from. Needs no simulator.

RoboCasa takes all its files from one folder: the plans, styles and cabinets of its package, and the
meshes and textures that are downloaded apart. `assets.json` lists the former, and what every style
names of the latter; `make_assets` wrote it from the installed package. A texture that is missing
stops RoboCasa in the kitchens that have it. An object that is missing does not, but gives other
scenes for the same seeds: hence the care.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from rpent_box.errors import AssetsMissing

OBJECTS = ("objaverse", "lightwheel", "aigen_objs")
"""RoboCasa's three collections of things, each a folder in `objects`."""

COMMAND = (
    'python="$(rpent-box build --launcher process robocasa </dev/null)" && '
    '"${python##*: }" -m rpent_box_robocasa.fetch_assets FOLDER </dev/null'
)
"""Fetches about 10 GB into FOLDER and asks nothing."""

_NAMED = {
    "textures": "textures",
    "generative_textures": "generated textures",
    "fixtures": "models of fixtures",
    "lightwheel": "models of things that belong to a kitchen",
}
"""Part → what it holds of that which styles name."""
_ABSENT_KINDS = 0.1
"""Share of a collection's kinds that may have no model: RoboCasa passes over such ones."""


class Wanted(Struct, frozen=True, kw_only=True):
    """Paths inside a complete folder."""

    own: tuple[str, ...]
    """Files that RoboCasa's package brings."""
    named: dict[str, tuple[str, ...]]
    """Part → files that some style names."""
    objects: dict[str, tuple[str, ...]]
    """Collection → kinds of things, each a folder with models."""


class Gap(Struct, frozen=True, kw_only=True):
    """One part that is not whole."""

    part: str
    """As `fetch_assets` calls it: own, a part that styles name, or a collection of objects."""
    sentence: str


def require(assets_path: str) -> None:
    """Raise `AssetsMissing` unless the folder is there and whole."""
    missing = missing_assets(assets_path)
    if missing is not None:
        raise missing


def missing_assets(assets_path: str) -> AssetsMissing | None:
    """Return what is wrong with the folder, as an error, or None."""
    if not assets_path:
        return AssetsMissing(
            "robocasa has no meshes and textures of its own, and no folder of them was named",
            hint=f"Fetch them once: {COMMAND}\nThen: export ROBOCASA_ASSETS_PATH=FOLDER",
        )
    folder = Path(assets_path)
    if not folder.is_dir():
        return AssetsMissing(
            f"there is no folder {folder}, where robocasa's assets should be",
            hint=f"Fetch them: {_command(folder)}",
        )
    gaps = gaps_in(folder)
    if not gaps:
        return None
    sentences = "; ".join(gap.sentence for gap in gaps)
    return AssetsMissing(
        f"robocasa's assets in {folder} are not whole: {sentences}",
        hint=f"Fetch what is missing: {_command(folder)}",
    )


def gaps_in(folder: Path) -> list[Gap]:
    """Return the parts of `folder` that are missing or not whole; empty when it is complete."""
    wanted = _wanted()
    return [
        *_gap(folder, "own", "files of robocasa's package", wanted.own),
        *(
            gap
            for part, what in _NAMED.items()
            for gap in _gap(folder, part, what, wanted.named[part])
        ),
        *(gap for name in OBJECTS for gap in _objects_gap(folder, name, wanted.objects[name])),
    ]


def _gap(folder: Path, part: str, what: str, names: Sequence[str]) -> Iterator[Gap]:
    missing = [name for name in names if not _is_written(folder / name)]
    if missing:
        count = f"{len(missing)} of {len(names)} {what}"
        yield Gap(part=part, sentence=f"missing are {count}, e.g. {missing[0]}")


def _objects_gap(folder: Path, collection: str, kinds: Sequence[str]) -> Iterator[Gap]:
    root = folder / "objects" / collection
    missing = [name for name in kinds if not any((root / name).glob("**/model.xml"))]
    if len(missing) > _ABSENT_KINDS * len(kinds):
        counts = f"{len(missing)} of {len(kinds)} kinds of things"
        sentence = f"{counts} in objects/{collection} have no model, e.g. {missing[0]}"
        yield Gap(part=collection, sentence=sentence)


def _is_written(file: Path) -> bool:
    """Return whether `file` is there; an empty one is what is left of a cut download."""
    try:
        return file.stat().st_size > 0
    except OSError:
        return False


def _command(folder: Path) -> str:
    return COMMAND.replace("FOLDER", shlex.quote(str(folder)))


@cache
def _wanted() -> Wanted:
    data = files("rpent_box_robocasa").joinpath("assets.json").read_bytes()
    return msgspec.json.decode(data, type=Wanted)
