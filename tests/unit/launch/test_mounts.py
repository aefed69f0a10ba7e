# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from rpent_box.errors import BadOption
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


def test_links_within_a_checkpoint_that_is_a_link_itself_are_followed_too(tmp_path: Path) -> None:
    for name in ("blobs", "rev"):
        (tmp_path / "hub" / name).mkdir(parents=True)
    (tmp_path / "hub" / "blobs" / "1234").write_text("w")
    (tmp_path / "hub" / "rev" / "weights").symlink_to("../blobs/1234")
    (tmp_path / "latest").symlink_to("hub/rev")
    mounted = {mount.source for mount in mounts_of([tmp_path / "latest"])}
    assert mounted == {str(tmp_path / name) for name in ("latest", "hub/rev", "hub/blobs")}


def test_a_link_that_leads_back_to_itself_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "egg").symlink_to("hen")
    (tmp_path / "hen").symlink_to("egg")
    (tmp_path / "self").symlink_to(".")
    assert [mount.source for mount in mounts_of([tmp_path])] == [str(tmp_path)]


@pytest.mark.parametrize("place", ["/", "/usr", "/usr/lib", "/etc/passwd", "/proc/self", "/tmp"])
def test_a_link_to_the_systems_own_places_does_not_hide_a_containers(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "there").symlink_to(place)
    assert [mount.source for mount in mounts_of([tmp_path])] == [str(tmp_path)]


@pytest.mark.parametrize("place", ["/", "/usr", "/etc", "/tmp", "/opt", "/run"])
def test_the_systems_own_places_are_not_shown_when_they_are_asked_for(place: str) -> None:
    with pytest.raises(BadOption, match=f"^{place} cannot be shown to a container"):
        mounts_of([Path(place)])


def test_a_file_beside_the_systems_own_is_shown_alone(tmp_path: Path) -> None:
    # Its folder, /tmp, is the container's own.
    with NamedTemporaryFile(dir="/tmp") as file:
        (tmp_path / "name").symlink_to(file.name)
        assert {mount.source for mount in mounts_of([tmp_path])} == {str(tmp_path), file.name}


def test_a_link_to_a_file_at_home_does_not_show_the_whole_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, assets = tmp_path / "home" / "me", tmp_path / "assets"
    assets.mkdir()
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (home / "scene.glb").touch()
    (assets / "scene.glb").symlink_to(home / "scene.glb")
    mounted = {mount.source for mount in mounts_of([assets])}
    assert mounted == {str(assets), str(home / "scene.glb")}
