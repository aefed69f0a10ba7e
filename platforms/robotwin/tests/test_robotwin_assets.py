# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest

from rpent_box.errors import AssetsMissing
from rpent_box_robotwin.assets import (
    REVISION,
    assets_revision,
    playable_tasks,
    require_assets,
    require_task,
)
from rpent_box_robotwin.plugin import RobotwinOptions

BLOCKS = [
    "blocks_ranking_rgb",
    "blocks_ranking_size",
    "handover_block",
    "stack_blocks_three",
    "stack_blocks_two",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a robot, and neither objects nor textures."""
    embodiment = tmp_path / "assets/embodiments/aloha-agilex"
    for folder in (embodiment, tmp_path / "assets/objects", tmp_path / "assets/background_texture"):
        folder.mkdir(parents=True)
    (embodiment / "config.yml").write_text('urdf_path: "./urdf/robot.urdf"\n')
    (embodiment / "urdf").mkdir()
    (embodiment / "urdf" / "robot.urdf").touch()
    (tmp_path / "assets/objects/.keep").touch()
    return tmp_path


def add(root: Path, *files: str) -> None:
    for name in files:
        path = root / "assets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def options(path: Path) -> RobotwinOptions:
    return RobotwinOptions(assets_path=str(path))


def test_the_folder_above_assets_is_the_root(root: Path) -> None:
    assert require_assets(options(root)) == root


def test_the_assets_folder_itself_may_be_named_too(root: Path) -> None:
    assert require_assets(options(root / "assets")) == root


def test_no_folder_at_all_says_how_to_name_and_fetch_one() -> None:
    with pytest.raises(AssetsMissing, match="ROBOTWIN_ASSETS_PATH") as caught:
        require_assets(RobotwinOptions())
    assert "robotwin-download-assets" in caught.value.hint
    assert "--output" in caught.value.hint


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssetsMissing, match="there is no folder .*nowhere"):
        require_assets(options(tmp_path / "nowhere"))


def test_a_folder_of_something_else_is_told_apart_from_a_broken_one(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(AssetsMissing, match="holds no robotwin assets"):
        require_assets(options(tmp_path))


def test_assets_under_another_name_are_told_what_they_must_be_called(root: Path) -> None:
    (root / "assets").rename(root / "robotwin")
    with pytest.raises(AssetsMissing, match="a folder called assets") as caught:
        require_assets(options(root / "robotwin"))
    assert "Call it assets" in caught.value.hint


@pytest.mark.parametrize(
    ("removed", "named"),
    [
        ("assets/objects", "assets/objects"),
        ("assets/background_texture", "assets/background_texture"),
        ("assets/embodiments/aloha-agilex", "assets/embodiments/aloha-agilex"),
        ("assets/embodiments/aloha-agilex/config.yml", "aloha-agilex/config.yml"),
        ("assets/embodiments/aloha-agilex/urdf/robot.urdf", "aloha-agilex/./urdf/robot.urdf"),
    ],
)
def test_a_part_that_is_missing_is_named(root: Path, removed: str, named: str) -> None:
    (root / removed).rename(root / "elsewhere")
    with pytest.raises(AssetsMissing, match=f"not whole: .*{named} is missing"):
        require_assets(options(root))


def test_a_robot_that_is_not_described_is_named(root: Path) -> None:
    (root / "assets/embodiments/aloha-agilex/config.yml").write_text("")
    with pytest.raises(AssetsMissing, match=r"not whole: urdf_path in .*config.yml is missing"):
        require_assets(options(root))


def test_another_revision_is_refused(root: Path) -> None:
    (root / ".robotwin-assets.json").write_text(json.dumps({"revision": "0123456789abcdef"}))
    with pytest.raises(AssetsMissing, match=f"0123456789ab.*{REVISION[:12]}") as caught:
        require_assets(options(root))
    assert "empty folder" in caught.value.hint


def test_the_pinned_revision_is_taken_and_recorded(root: Path) -> None:
    assert assets_revision(root) == ""
    written = {"revision": REVISION, "repository": "name", "archives": {}}
    (root / ".robotwin-assets.json").write_text(json.dumps(written))
    assert require_assets(options(root)) == root
    assert assets_revision(root) == REVISION


@pytest.mark.parametrize("text", ["{", "[]", '{"repository": "name"}'])
def test_a_manifest_that_cannot_be_read_is_named(root: Path, text: str) -> None:
    (root / ".robotwin-assets.json").write_text(text)
    with pytest.raises(AssetsMissing, match="robotwin-assets.json cannot be read"):
        require_assets(options(root))


def test_with_a_robot_alone_the_block_tasks_can_be_played(root: Path) -> None:
    assert playable_tasks(root, "demo_clean") == BLOCKS
    for task in BLOCKS:
        require_task(root, "demo_clean", task)


def test_a_task_without_its_object_is_refused_with_those_that_can_be_played(root: Path) -> None:
    with pytest.raises(AssetsMissing, match="assets/objects/020_hammer") as caught:
        require_task(root, "demo_clean", "beat_block_hammer")
    assert "stack_blocks_two" in caught.value.hint
    add(root, "objects/020_hammer/base0.glb")
    require_task(root, "demo_clean", "beat_block_hammer")


def test_an_empty_folder_is_no_object(root: Path) -> None:
    add(root, "objects/020_hammer/.keep")
    with pytest.raises(AssetsMissing, match="020_hammer"):
        require_task(root, "demo_clean", "beat_block_hammer")


def test_randomized_scenes_need_textures_and_clutter_as_well(root: Path) -> None:
    assert playable_tasks(root, "demo_randomized") == []
    for file, named in (
        ("background_texture/unseen/0.png", "background_texture/unseen"),
        ("objects/objaverse/list.json", "objaverse/list.json"),
        ("objects/same.json", "same.json"),
    ):
        with pytest.raises(AssetsMissing, match=named):
            require_task(root, "demo_randomized", "stack_blocks_two")
        add(root, file)
    assert playable_tasks(root, "demo_randomized") == BLOCKS


def test_the_revision_and_the_folders_are_those_of_the_installed_runtime(root: Path) -> None:
    stock = pytest.importorskip(
        "robotwin.assets", reason="the RoboTwin runtime is not installed here"
    )
    assert stock.ASSET_REVISION == REVISION
    (root / stock.MANIFEST_NAME).write_text(json.dumps({"revision": REVISION}))
    assert stock.validate_root(root)["revision"] == assets_revision(root)
