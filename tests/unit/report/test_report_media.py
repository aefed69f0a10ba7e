# SPDX-License-Identifier: Apache-2.0
"""Only files of the run's own folder, that are what they say, get into a page or a link."""

from __future__ import annotations

import base64
import os

import pytest
from fabricated_runs import fabricate_evaluation, plan_of
from msgspec.structs import replace
from tiny_media import PICTURE, VIDEO

from rpent_box.report.load import load_entries
from rpent_box.report.media import MB, Album
from rpent_box.report.write import write_report

PLAN = plan_of({"libero_spatial": 1}, episodes=4)
FILES = {"episode.mp4": VIDEO, "episode.jpg": PICTURE}


def unsolved(job, row):
    return replace(row, success=job.episode == 0)


def gallery_of(folder, *, page=None, videos="failures", limit_mb=1.0):
    (entry,) = load_entries([folder])
    album = Album(page or folder / "report.html", videos=videos, limit_mb=limit_mb)
    return album.gallery(entry.rows())


@pytest.fixture
def folder(tmp_path):
    return fabricate_evaluation(tmp_path, "one", plan=PLAN, change=unsolved, files=FILES)


def bytes_of(url):
    return base64.b64decode(url.partition(",")[2])


def test_failures_are_in_the_page_as_they_are(folder):
    gallery = gallery_of(folder)
    assert [one.row.episode for one in gallery.failures] == [1, 2, 3]
    assert (gallery.embedded, gallery.linked, gallery.solved) == (3, 0, ())
    for one in gallery.failures:
        assert one.video.startswith("data:video/mp4;base64,")
        assert bytes_of(one.video) == VIDEO
        assert bytes_of(one.picture) == PICTURE


def test_without_videos_there_are_pictures_and_links(folder):
    gallery = gallery_of(folder, videos="none")
    assert (gallery.embedded, gallery.linked) == (0, 3)
    assert [one.link for one in gallery.failures] == [
        f"episode-00{number}/episode.mp4" for number in (1, 2, 3)
    ]
    assert all(one.picture for one in gallery.failures)


def test_all_shows_the_solved_ones_with_a_video_too(folder):
    (entry,) = load_entries([folder])
    (owner, row), *others = entry.rows()
    (folder / "episode-000").mkdir()
    (folder / "episode-000" / "episode.mp4").write_bytes(VIDEO)
    rows = [(owner, replace(row, video="episode.mp4")), *others]
    album = Album(folder / "report.html", videos="all", limit_mb=1)
    gallery = album.gallery(rows)
    assert [one.row.episode for one in gallery.solved] == [0]
    assert gallery.embedded == 4
    assert Album(folder / "report.html", videos="failures", limit_mb=1).gallery(rows).solved == ()


def test_what_is_above_the_limit_is_a_link_and_pictures_go_first(folder):
    pictures = 3 * 4 * -(-len(PICTURE) // 3)
    one_video = 4 * -(-len(VIDEO) // 3)
    gallery = gallery_of(folder, limit_mb=(pictures + one_video + 1) / MB)
    assert [bool(one.picture) for one in gallery.failures] == [True] * 3
    assert [bool(one.video) for one in gallery.failures] == [True, False, False]
    assert [bool(one.link) for one in gallery.failures] == [False, True, True]
    nothing = gallery_of(folder, limit_mb=0)
    assert (nothing.embedded, nothing.linked) == (0, 3)


def test_links_lead_from_where_the_page_lies(folder, tmp_path):
    page = tmp_path / "pages" / "of all" / "report.html"
    (link, *_) = [one.link for one in gallery_of(folder, page=page, videos="none").failures]
    assert link == "../../one/episode-001/episode.mp4"


def test_a_link_is_an_address_and_never_a_program(tmp_path):
    folder = fabricate_evaluation(
        tmp_path, "javascript:alert(1) #?", plan=PLAN, change=unsolved, files=FILES
    )
    page = tmp_path / "report.html"
    (link, *_) = [one.link for one in gallery_of(folder, page=page, videos="none").failures]
    assert link == "javascript%3Aalert%281%29%20%23%3F/episode-001/episode.mp4"


def test_a_name_on_the_disk_need_not_be_text(tmp_path):
    parent = tmp_path / os.fsdecode(b"odd \xff")
    folder = fabricate_evaluation(
        parent, "one", plan=PLAN, played=3, change=unsolved, files=FILES
    ).rename(parent / os.fsdecode(b"x\xfe"))
    page = tmp_path / "report.html"
    write_report([folder], output=page, videos="none")
    text = page.read_text(encoding="utf-8")
    assert 'href="odd%20%FF/x%FE/episode-001/episode.mp4"' in text
    assert "eval --resume &#39;x\N{REPLACEMENT CHARACTER}&#39;" in text


@pytest.mark.parametrize(
    "name", ["../../secret.mp4", "/etc/passwd", "..", ".", "sub/../../../secret.mp4", "absent.mp4"]
)
def test_a_row_cannot_name_a_file_elsewhere(folder, tmp_path, name):
    (tmp_path / "secret.mp4").write_bytes(VIDEO)
    (entry,) = load_entries([folder])
    rows = [(owner, replace(row, video=name, thumbnail=name)) for owner, row in entry.rows()]
    gallery = Album(folder / "report.html", videos="all", limit_mb=1).gallery(rows)
    shown = [*gallery.failures, *gallery.solved]
    assert shown
    assert all((one.video, one.picture, one.link) == (None, None, None) for one in shown)


def test_a_file_cannot_be_a_way_out_of_the_folder(folder, tmp_path):
    (tmp_path / "secret.mp4").write_bytes(VIDEO)
    (folder / "episode-001" / "episode.mp4").unlink()
    (folder / "episode-001" / "episode.mp4").symlink_to(tmp_path / "secret.mp4")
    (first, second, _) = gallery_of(folder).failures
    assert (first.video, first.link) == (None, None)
    assert second.video


def test_what_is_no_video_and_no_picture_is_not_put_into_the_page(folder):
    (folder / "episode-001" / "episode.mp4").write_bytes(b"<html>")
    (folder / "episode-001" / "episode.jpg").write_bytes(b"<svg onload=alert(1)>")
    (first, *_) = gallery_of(folder).failures
    assert (first.video, first.picture) == (None, None)
    assert first.link == "episode-001/episode.mp4"


def test_of_very_many_failures_only_so_many_are_shown_and_the_others_named(tmp_path):
    plan = plan_of({"libero_spatial": 10}, episodes=40)
    gallery = gallery_of(fabricate_evaluation(tmp_path, "one", plan=plan, skill=0.0))
    assert len(gallery.failures) == 300
    assert len(gallery.unshown) == 100
    assert gallery.unshown[-1] == ("libero_spatial", 9, 39, 7)
