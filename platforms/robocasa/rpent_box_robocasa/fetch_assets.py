# SPDX-License-Identifier: Apache-2.0
"""Fill a folder with what kitchens are built from: `python -m rpent_box_robocasa.fetch_assets DIR`.

Downloads about 10 GB with RoboCasa's own downloader, asks nothing, and adds the files that its
package brings, which RoboCasa looks for in the same folder. Parts that are whole already are left
alone, so that it may be run again; a part that was cut begins anew. Exits 1 when something is
missing afterwards, and names it.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile

from rpent_box_robocasa.assets import Gap, gaps_in
from rpent_box_robocasa.process import package_folder, prepared_process

DOWNLOADS = {
    "textures": "tex",
    "generative_textures": "tex_generative",
    "fixtures": "fixtures_lw",
    "objaverse": "objs_objaverse",
    "lightwheel": "objs_lw",
    "aigen_objs": "objs_aigen",
}
"""Our part → what RoboCasa's downloader calls it."""
SILENCE_S = 60.0
"""How long the other end of a download may say nothing."""


def main(words: Sequence[str]) -> int:
    """Fetch what is missing; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m rpent_box_robocasa.fetch_assets")
    parser.add_argument("folder", type=Path, help="where the assets shall lie, e.g. ~/robocasa")
    folder = parser.parse_args(list(words)).folder.expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with prepared_process():
        download(folder, gaps_in(folder))
        copy_own_files(folder)
    gaps = gaps_in(folder)
    for gap in gaps:
        sys.stderr.write(f"{gap.sentence}\n")
    if not gaps:
        sys.stderr.write(f"complete: export ROBOCASA_ASSETS_PATH={folder}\n")
    return 1 if gaps else 0


def download(folder: Path, gaps: Sequence[Gap]) -> None:
    """Download the archives of the parts that are not whole, and unpack them.

    One that cannot be had is named, and the others are still tried.
    """
    from robocasa.scripts import download_kitchen_assets as stock

    package = package_folder("robocasa") / "models" / "assets"
    for part in dict.fromkeys(gap.part for gap in gaps if gap.part in DOWNLOADS):
        archive = dict(stock.DOWNLOAD_ASSET_REGISTRY[DOWNLOADS[part]])
        target = folder / Path(archive["folder"]).relative_to(package)
        try:
            with _impatient():
                stock.download_and_extract_zip(**{**archive, "folder": str(target)})
        except (OSError, BadZipFile) as error:
            sys.stderr.write(f"{part} could not be fetched from {archive['url']}: {error}\n")
        finally:
            # RoboCasa's downloader keeps it beside the folder, and leaves it there when it is cut.
            target.with_name(f"{target.name}.zip").unlink(missing_ok=True)


@contextmanager
def _impatient() -> Iterator[None]:
    """Let connections fail that are silent: the stock downloader would wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def copy_own_files(folder: Path) -> None:
    """Copy what RoboCasa's package brings to where the downloads lie; what is there stays."""
    package = package_folder("robocasa") / "models" / "assets"
    for file in package.rglob("*"):
        copy = folder / file.relative_to(package)
        if file.is_file() and not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
