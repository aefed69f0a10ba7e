# SPDX-License-Identifier: Apache-2.0
"""A folder of assets is looked at on the host, part by part."""

from __future__ import annotations

import socket
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest
from msgspec.structs import replace

from rpent_box.errors import AssetsMissing
from rpent_box_robocasa import PLATFORM
from rpent_box_robocasa.assets import _wanted, gaps_in, missing_assets, require
from rpent_box_robocasa.plugin import RobocasaOptions

NAMED = ["textures", "generative_textures", "fixtures", "lightwheel"]
PARTS = ["own", *NAMED, "objaverse", "lightwheel", "aigen_objs"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file for every path that is wanted."""
    wanted = _wanted()
    models = [
        f"objects/{collection}/{kind}/{kind}_0/model.xml"
        for collection, kinds in wanted.objects.items()
        for kind in kinds
    ]
    for name in (*wanted.own, *(name for part in NAMED for name in wanted.named[part]), *models):
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
    count = len(_wanted().named["fixtures"])
    assert gap.sentence == f"missing are 1 of {count} models of fixtures, e.g. {name}"


@pytest.mark.parametrize("part", NAMED)
def test_an_empty_file_of_any_part_counts_as_missing(folder: Path, part: str) -> None:
    name = _wanted().named[part][3]
    (folder / name).write_bytes(b"")
    (gap,) = gaps_in(folder)
    assert (gap.part, name in gap.sentence) == (part, True)


def test_what_kitchens_of_pretraining_alone_have_is_wanted_too() -> None:
    named = _wanted().named
    # scenes/kitchen_styles/train/style017.yaml: cabinet gentex028, wall gentex060, plant Plant025
    assert "generative_textures/cabinet/tex028.png" in named["generative_textures"]
    assert "generative_textures/wall/tex060.png" in named["generative_textures"]
    assert "objects/lightwheel/plant/Plant025/model.xml" in named["lightwheel"]
    # Only another kind of fixture's entry has that name: no kitchen shows this one.
    assert "textures/bricks/white_bricks.png" not in named["textures"]


def test_a_folder_with_a_space_in_its_name_is_quoted_in_the_command(tmp_path: Path) -> None:
    error = missing_assets(str(tmp_path / "my assets"))
    assert error is not None
    assert f"fetch_assets '{tmp_path}/my assets'" in error.hint


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

        assert set(DOWNLOADS) == set(PARTS) - {"own"}
        # Every archive is for kitchens: one that is left out is missed in some of them.
        assert set(DOWNLOADS.values()) == set(DOWNLOAD_ASSET_REGISTRY)


@pytest.fixture
def downloader(standins: str) -> ModuleType:
    from rpent_box_robocasa.process import prepared_process

    with prepared_process(standins):
        from robocasa.scripts import download_kitchen_assets
    return download_kitchen_assets


@pytest.mark.simulator
def test_fetching_adds_the_packages_files_and_downloads_what_lacks(
    downloader: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rpent_box_robocasa import fetch_assets

    asked = []
    monkeypatch.setattr(
        downloader, "download_and_extract_zip", lambda **archive: asked.append(archive)
    )
    assert fetch_assets.main([str(tmp_path)]) == 1
    assert [Path(archive["folder"]) for archive in asked] == [
        *(tmp_path / name for name in ("textures", "generative_textures", "fixtures")),
        *(tmp_path / "objects" / name for name in ("lightwheel", "objaverse", "aigen_objs")),
    ]
    assert all(archive["url"].endswith(".zip") for archive in asked)
    assert not any(archive["check_folder_exists"] for archive in asked), "it would ask"
    assert [gap.part for gap in gaps_in(tmp_path)] == PARTS[1:]


@pytest.mark.simulator
def test_an_archive_that_cannot_be_had_is_named_and_the_others_are_fetched(
    downloader: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With RoboCasa's own downloader: one archive whole, one a page of a website, others cut."""
    from rpent_box_robocasa import fetch_assets

    links = downloader.DOWNLOAD_ASSET_REGISTRY
    waits = []

    def retrieve(url: str, filename: str, reporthook: object) -> None:
        waits.append(socket.getdefaulttimeout())
        if url == links["tex"]["url"]:
            with ZipFile(filename, "w") as archive:
                archive.writestr("textures/one.png", "x")
        elif url == links["fixtures_lw"]["url"]:
            Path(filename).write_text("<html>")
        else:
            Path(filename).write_bytes(b"PK")
            raise ConnectionResetError("reset by peer")

    monkeypatch.setattr(downloader.urllib.request, "urlretrieve", retrieve)
    assert fetch_assets.main([str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"fixtures could not be fetched from {links['fixtures_lw']['url']}: File is not" in said
    assert "objects/aigen_objs have no model" in said
    assert (tmp_path / "textures/one.png").read_text() == "x"
    assert list(tmp_path.rglob("*.zip")) == []
    assert set(waits) == {fetch_assets.SILENCE_S}
    assert socket.getdefaulttimeout() is None
