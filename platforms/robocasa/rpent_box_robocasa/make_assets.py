# SPDX-License-Identifier: Apache-2.0
"""Write `assets.json` from the installed package: `python -m rpent_box_robocasa.make_assets`."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rpent_box_robocasa.assets import OBJECTS, Wanted
from rpent_box_robocasa.process import package_folder, prepared_process

_NOT_DRAWN = ("box_links", "groot_dataset_assets", "novel_instructions")
"""Folders of the package that hold links, data sets' formats and sentences."""
_DOORS = {
    "CabinetDoorPanel": "fixtures/cabinets/cabinet_panels",
    "CabinetHandle": "fixtures/handles",
}
"""How the names of doors and handles begin, which stand for models, and where those lie."""
_FOLDERS = ("textures/", "generative_textures/", "fixtures/", "objects/")


def read_wanted() -> Wanted:
    """Return what the installed package brings and what its kitchens name besides."""
    package = package_folder("robocasa")
    assets = package / "models" / "assets"
    own = sorted(_own_files(assets))
    named: dict[str, list[str]] = {}
    for name in sorted(set(_named_by_styles(assets)) - set(own)):
        named.setdefault(_part(name), []).append(name)
    return Wanted(
        own=tuple(own),
        named={part: tuple(names) for part, names in sorted(named.items())},
        objects={name: tuple(_kinds(package, name)) for name in OBJECTS},
    )


def _own_files(assets: Path) -> Iterator[str]:
    for file in assets.rglob("*"):
        name = file.relative_to(assets)
        if file.is_file() and name.parts[0] not in _NOT_DRAWN and "__pycache__" not in name.parts:
            yield name.as_posix()


def _part(name: str) -> str:
    """Return the part of the assets that file `name` belongs to: its folder, or its collection."""
    folder, collection, *_ = name.split("/")
    return collection if folder == "objects" else folder


def _named_by_styles(assets: Path) -> Iterator[str]:
    """Yield the textures and models of what the styles choose, fixture by fixture."""
    import yaml

    registries = {
        file.stem: yaml.safe_load(file.read_text())
        for file in assets.glob("fixtures/fixture_registry/*.yaml")
    }
    for file in assets.glob("scenes/kitchen_styles/*/*"):
        for fixture, choice in yaml.safe_load(file.read_text()).items():
            registry = registries.get(fixture)
            if registry is not None:  # some styles choose for fixtures that are none of their own
                for names in choice.values() if isinstance(choice, dict) else [choice]:
                    yield from _files(registry, names if isinstance(names, list) else [names])


def _files(registry: dict[str, Any], names: list[str]) -> Iterator[str]:
    """Yield the files of a fixture's default with the entries `names` laid over it, in order."""
    settings = dict(registry["default"])
    for name in names:
        settings |= registry[name]
    for text in _strings(settings):
        door = text.rstrip("0123456789")
        if door in _DOORS:
            yield f"{_DOORS[door]}/{text}/model.xml"
        elif text.startswith(_FOLDERS):
            yield text if Path(text).suffix else f"{text}/model.xml"


def _strings(value: Any) -> Iterator[str]:  # noqa: ANN401 - YAML holds anything
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def _kinds(package: Path, collection: str) -> list[str]:
    """Return the folders of `collection` that RoboCasa takes things from."""
    # Run anew: RoboCasa replaces this table's entries by what it finds on the disk.
    table = runpy.run_path(str(package / "models" / "objects" / "kitchen_objects.py"))
    found = set()
    for kind, settings in table["OBJ_CATEGORIES"].items():
        own = settings.get(collection.removesuffix("_objs"))
        if own is not None:
            found.update(own.get("model_folders", [f"{collection}/{kind}"]))
    return sorted(folder.split("/")[1] for folder in found)


def main() -> None:
    path = Path(__file__).with_name("assets.json")
    with prepared_process():
        wanted = read_wanted()
    path.write_bytes(msgspec.json.format(msgspec.json.encode(wanted), indent=1) + b"\n")


if __name__ == "__main__":
    main()
