# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from rpent_box.launch.mounts import mounts_of
from rpent_box.launch.program import Mount


def test_a_plain_folder_or_file_is_mounted_read_only_at_its_own_path(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "weights").write_text("w")
    assert mounts_of([tmp_path]) == (Mount(str(tmp_path), str(tmp_path), True),)
    file = tmp_path / "inner" / "weights"
    assert mounts_of([file]) == (Mount(str(file), str(file), True),)


def test_a_hubs_links_lead_to_the_same_files_inside(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    snapshot = tmp_path / "snapshots" / "rev"
    blobs.mkdir()
    (snapshot / "nested").mkdir(parents=True)
    (blobs / "1234").write_text("w")
    (snapshot / "weights").symlink_to(Path("../../blobs/1234"))
    (snapshot / "nested" / "config").symlink_to(Path("../../../blobs/1234"))
    mounted = {mount.source for mount in mounts_of([snapshot])}
    assert mounted == {str(snapshot), str(blobs)}


def test_links_within_the_checkpoint_need_nothing_more(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("w")
    (tmp_path / "latest").symlink_to("weights")
    assert [mount.source for mount in mounts_of([tmp_path])] == [str(tmp_path)]


def test_a_checkpoint_that_is_a_link_itself_is_followed(tmp_path: Path) -> None:
    real = tmp_path / "disk" / "step-1000"
    real.mkdir(parents=True)
    (tmp_path / "latest").symlink_to(real)
    mounted = {mount.source for mount in mounts_of([tmp_path / "latest"])}
    assert mounted == {str(tmp_path / "latest"), str(real)}


def test_a_chain_of_links_is_followed_to_its_end(tmp_path: Path) -> None:
    for name in ("here", "there", "store"):
        (tmp_path / name).mkdir()
    (tmp_path / "store" / "w").write_text("w")
    (tmp_path / "there" / "w").symlink_to(tmp_path / "store" / "w")
    (tmp_path / "here" / "w").symlink_to(tmp_path / "there" / "w")
    mounted = {Path(mount.source).name for mount in mounts_of([tmp_path / "here"])}
    assert mounted == {"here", "there", "store"}


def test_a_broken_link_asks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("/nonexistent/place/file")
    assert [mount.source for mount in mounts_of([tmp_path])] == [str(tmp_path)]
