# SPDX-License-Identifier: Apache-2.0
"""Pictures and videos of episodes: put into the page, or linked where there is no room for them.

A run's folder may come from somebody else: only files that lie in it, and are what they are called,
are put into a page.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from rpent_box.evaluate.scale.plan import JobKey, key_of
from rpent_box.report.load import Folder
from rpent_box.sim.results import EpisodeRow, episode_folder_name

EmbedVideos: TypeAlias = Literal["all", "failures", "none"]

DEFAULT_LIMIT_MB = 24.0
MB = 1_000_000
MOST_BYTES_OF_A_PICTURE = MB
MOST_CARDS = 300
"""Episodes that are shown with a picture or a place for it; of more, only the keys are listed."""


class Shown(Struct, frozen=True, kw_only=True):
    """One episode as it is shown."""

    folder: Folder
    row: EpisodeRow
    picture: str | None = None
    """`data:image/jpeg;base64,…`"""
    video: str | None = None
    """`data:video/mp4;base64,…`; None: see `link`."""
    link: str | None = None
    """From the page to the video; None: it is in the page, or nowhere."""


class Gallery(Struct, frozen=True, kw_only=True):
    """The episodes that are shown, and how much of them is in the page."""

    failures: tuple[Shown, ...]
    solved: tuple[Shown, ...]
    """With `all`, those that have a video."""
    unshown: tuple[JobKey, ...] = ()
    """Failures beyond `MOST_CARDS`."""
    embedded: int
    """Videos in the page."""
    linked: int
    """Videos that lie beside it."""

    @property
    def failed_keys(self) -> list[JobKey]:
        """Of the failures that are shown."""
        return [key_of(one.row) for one in self.failures]

    @property
    def has_media(self) -> bool:
        """Some failure has something to look at."""
        return any(one.picture or one.video or one.link for one in self.failures)


class Album:
    """Puts media into one page until it is full; `page` is where the page will lie."""

    def __init__(self, page: Path, *, videos: EmbedVideos, limit_mb: float) -> None:
        self._page = page.absolute()
        self._videos = videos
        self._left = int(limit_mb * MB)

    def gallery(self, rows: list[tuple[Folder, EpisodeRow]]) -> Gallery:
        """Return the failures, and with `all` the solved ones; pictures go in before videos."""
        failures = [pair for pair in rows if not pair[1].success]
        chosen = failures[:MOST_CARDS]
        if self._videos == "all":
            chosen += [pair for pair in rows if pair[1].success and pair[1].video][:MOST_CARDS]
        pictures = [self._picture(folder, row) for folder, row in chosen]
        shown = [
            self._with_video(Shown(folder=folder, row=row, picture=picture))
            for (folder, row), picture in zip(chosen, pictures, strict=True)
        ]
        return Gallery(
            failures=tuple(one for one in shown if not one.row.success),
            solved=tuple(one for one in shown if one.row.success),
            unshown=tuple(key_of(row) for _, row in failures[MOST_CARDS:]),
            embedded=sum(one.video is not None for one in shown),
            linked=sum(one.link is not None for one in shown),
        )

    def _picture(self, folder: Folder, row: EpisodeRow) -> str | None:
        path = find_file(folder, row, row.thumbnail)
        if path is None or path.stat().st_size > MOST_BYTES_OF_A_PICTURE:
            return None
        data = self._taken(path)
        return as_url("image/jpeg", data) if data and data.startswith(b"\xff\xd8\xff") else None

    def _with_video(self, shown: Shown) -> Shown:
        path = find_file(shown.folder, shown.row, shown.row.video)
        if path is None:
            return shown
        data = None if self._videos == "none" else self._taken(path)
        # An MP4 says `ftyp` behind the length of its first part.
        if data and data[4:8] == b"ftyp":
            return replace(shown, video=as_url("video/mp4", data))
        return replace(shown, link=link_to(path, self._page))

    def _taken(self, path: Path) -> bytes | None:
        """Return the bytes of `path` if there is room for them in the page."""
        try:
            size = path.stat().st_size
            if _in_base64(size) > self._left:
                return None
            data = path.read_bytes()
        except OSError:
            return None
        self._left -= _in_base64(len(data))
        return data


def find_file(folder: Folder, row: EpisodeRow, name: str | None) -> Path | None:
    """Return where `name` lies in an episode's folder; None: nowhere in the run's own folder."""
    if not name or name != os.path.basename(name):
        return None
    path = (folder.path / episode_folder_name(row.episode) / name).resolve()
    inside = path.is_relative_to(folder.path.resolve())
    return path if inside and path.is_file() else None


def link_to(path: Path, page: Path) -> str:
    """Return the relative address of `path` within `page`."""
    # Bytes: a name on a disk need not be UTF-8.
    return quote(os.fsencode(os.path.relpath(path, page.parent.resolve())))


def as_url(kind: str, data: bytes) -> str:
    """Return `data` as an address that holds it."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _in_base64(size: int) -> int:
    return -(-size // 3) * 4
