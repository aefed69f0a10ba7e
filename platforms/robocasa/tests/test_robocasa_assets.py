# SPDX-License-Identifier: Apache-2.0
"""A folder of assets is looked at on the host, part by part."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from rpent_box.errors import AssetsMissing
from rpent_box_robocasa import PLATFORM
from rpent_box_robocasa.assets import _wanted, gaps_in, missing_assets, require
from rpent_box_robocasa.plugin import RobocasaOptions

PARTS = ["own", "textures", "fixtures", "objaverse", "lightwheel", "aigen_objs"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file for every path that is wanted."""
    wanted = _wanted()
    models = [
        f"objects/{collection}/{kind}/{kind}_0/model.xml"
        for collection, kinds in wanted.objects.items()
        for kind in kinds
    ]
    for name in (*wanted.own, *wanted.textures, *wanted.fixtures, *models):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


def test_a_whole_folder_is_accepted(folder: Path) -> None:
    assert gaps_in(folder) == []
    require(str(folder))


def test_an_empty_folder_lacks_every_part(tmp_path: Path) -> None:
    assert [gap.part for gap in gaps_in(tmp_path)] == PARTS
    error = missing_assets(str(tmp_path))
    assert error is not None
    assert error.message.count("; ") == len(PARTS) - 1
    assert f"fetch_assets {tmp_path}" in error.hint


def test_one_missing_fixture_is_named(folder: Path) -> None:
    name = "fixtures/sinks/Sink025/model.xml"
    (folder / name).unlink()
    (gap,) = gaps_in(folder)
    assert gap.part == "fixtures"
    assert gap.sentence.endswith(
        f"1 of {len(_wanted().fixtures)} models of fixtures are missing, e.g. {name}"
    )


def test_an_empty_texture_counts_as_missing(folder: Path) -> None:
    name = _wanted().textures[3]
    (folder / name).write_bytes(b"")
    (gap,) = gaps_in(folder)
    assert gap.part == "textures"
    assert name in gap.sentence


def test_a_cut_collection_of_things_is_noticed_and_one_absent_kind_is_not(folder: Path) -> None:
    kinds = _wanted().objects["objaverse"]
    for place, kind in enumerate(kinds):
        if place == 1:
            assert gaps_in(folder) == []
        if place > len(kinds) // 2:
            break
        (folder / f"objects/objaverse/{kind}/{kind}_0/model.xml").unlink()
    (gap,) = gaps_in(folder)
    assert gap.part == "objaverse"
    assert f"of {len(kinds)} kinds" in gap.sentence


def test_without_the_packages_own_files_the_downloads_are_not_enough(folder: Path) -> None:
    (folder / "arenas/empty_kitchen_arena.xml").unlink()
    (gap,) = gaps_in(folder)
    assert (gap.part, "files of robocasa's package" in gap.sentence) == ("own", True)


@pytest.mark.parametrize("place", ["", "nowhere"])
def test_no_folder_is_an_error_with_the_command(tmp_path: Path, place: str) -> None:
    named = str(tmp_path / place) if place else ""
    assert PLATFORM.require is not None
    with pytest.raises(AssetsMissing, match="fetch_assets") as caught:
        PLATFORM.require(replace(RobocasaOptions(), assets_path=named))
    assert "</dev/null" in caught.value.hint
    assert named in caught.value.message


def test_the_command_names_modules_that_exist() -> None:
    import importlib.util

    assert importlib.util.find_spec("rpent_box_robocasa.fetch_assets") is not None


@pytest.mark.simulator
def test_the_stand_ins_are_whole_and_the_list_is_the_installed_one(standins: str) -> None:
    from rpent_box_robocasa.make_assets import read_wanted
    from rpent_box_robocasa.process import prepared_process

    assert gaps_in(Path(standins)) == []
    with prepared_process(standins):
        assert read_wanted() == _wanted()
        from robocasa.scripts.download_kitchen_assets import DOWNLOAD_ASSET_REGISTRY

        from rpent_box_robocasa.fetch_assets import DOWNLOADS

        assert set(DOWNLOADS.values()) <= set(DOWNLOAD_ASSET_REGISTRY)
        assert set(DOWNLOADS) == set(PARTS) - {"own"}


@pytest.mark.simulator
def test_fetching_adds_the_packages_files_and_downloads_what_lacks(
    standins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rpent_box_robocasa import fetch_assets
    from rpent_box_robocasa.process import prepared_process

    with prepared_process(standins):
        from robocasa.scripts import download_kitchen_assets as stock

    asked = []
    monkeypatch.setattr(stock, "download_and_extract_zip", lambda **archive: asked.append(archive))
    assert fetch_assets.main([str(tmp_path)]) == 1
    assert [Path(archive["folder"]) for archive in asked] == [
        tmp_path / name
        for name in ("textures", "fixtures", *(f"objects/{part}" for part in PARTS[3:]))
    ]
    assert all(archive["url"].endswith(".zip") for archive in asked)
    assert not any(archive["check_folder_exists"] for archive in asked), "it would ask"
    assert [gap.part for gap in gaps_in(tmp_path)] == PARTS[1:]
