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
_DOORS = ("CabinetDoorPanel", "CabinetHandle")


def read_wanted() -> Wanted:
    """Return what the installed package brings and what its kitchens name besides."""
    package = package_folder("robocasa")
    assets = package / "models" / "assets"
    own = sorted(_own_files(assets))
    named = sorted(set(_named_by_styles(assets)) - set(own))
    return Wanted(
        own=tuple(own),
        textures=tuple(name for name in named if name.startswith("textures/")),
        fixtures=tuple(name for name in named if name.startswith("fixtures/")),
        objects={name: tuple(_kinds(package, name)) for name in OBJECTS},
    )


def _own_files(assets: Path) -> Iterator[str]:
    for file in assets.rglob("*"):
        name = file.relative_to(assets)
        if file.is_file() and name.parts[0] not in _NOT_DRAWN and "__pycache__" not in name.parts:
            yield name.as_posix()


def _named_by_styles(assets: Path) -> Iterator[str]:
    """Yield the textures and models of every configuration that some style chooses."""
    import yaml

    styles = [yaml.safe_load(file.read_text()) for file in assets.glob("scenes/kitchen_styles/*/*")]
    chosen = {text for style in styles for text in _strings(style)}
    for file in assets.glob("fixtures/fixture_registry/*.yaml"):
        for name, settings in yaml.safe_load(file.read_text()).items():
            if name in chosen:
                yield from (_model_file(text) for text in _strings(settings) if _is_file(text))
    for name in chosen:
        if name.startswith(_DOORS):
            kind = "handles" if name.startswith("CabinetHandle") else "cabinets/cabinet_panels"
            yield f"fixtures/{kind}/{name}/model.xml"


def _strings(value: Any) -> Iterator[str]:  # noqa: ANN401 - YAML holds anything
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def _is_file(text: str) -> bool:
    return text.startswith(("textures/", "fixtures/"))


def _model_file(text: str) -> str:
    return text if Path(text).suffix else f"{text}/model.xml"


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
