# SPDX-License-Identifier: Apache-2.0
"""Wheels that a lock names and the public index does not have: builds of a version of its own."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rpent_box.errors import LaunchError
from rpent_box.launch.host_settings import read_indexes
from rpent_box.launch.recipe import Recipe

# A version such as 2.13.0+cpu: the public index takes none with a local part.
_PIN = re.compile(r"(?m)^([A-Za-z0-9._-]+)==(\S+\+\S+)")


def lend_wheels(recipes: Sequence[Recipe], environ: Mapping[str, str]) -> None:
    """Put into images/wheels what the locks of `recipes` name and this machine's pip could find.

    A container does not see the folders that pip is told of (`find-links`). Raises `LaunchError`
    when such a wheel is neither there nor there to be found, and no other index is configured.
    """
    indexes = read_indexes(environ)
    folders = list(_local_folders(indexes.find_links))
    has_another_index = bool(indexes.remote().extra or indexes.default)
    for recipe in recipes:
        lent = recipe.checkout / "images" / "wheels"
        for name, version in _pins(recipe.lock):
            pattern = f"{re.sub('[-.]+', '_', name)}-{version}-*.whl"
            if any(lent.glob(pattern)) or _take(folders, pattern, lent):
                continue
            if not has_another_index:
                raise LaunchError(
                    f"{recipe.name} is locked to {name}=={version}, which the public package index "
                    "does not have",
                    hint=f"Put its wheel into {lent}, or name an index that has it: UV_INDEX=URL. "
                    "See docs/images.md, Variants and devices.",
                )


def _pins(lock: Path) -> list[tuple[str, str]]:
    return _PIN.findall(lock.read_text())


def _local_folders(addresses: Sequence[str]) -> Iterator[Path]:
    for address in addresses:
        folder = Path(address.removeprefix("file://")).expanduser()
        if folder.is_dir():
            yield folder


def _take(folders: Sequence[Path], pattern: str, lent: Path) -> bool:
    found = [wheel for folder in folders for wheel in folder.glob(pattern)]
    for wheel in found:
        # Never half a wheel under its own name: another build may be reading there, or copying.
        half = lent / f".{wheel.name}.{os.getpid()}.part"
        try:
            shutil.copyfile(wheel, half)
            half.replace(lent / wheel.name)
        except OSError as error:
            half.unlink(missing_ok=True)
            raise LaunchError(f"{wheel} cannot be lent to a build: {error}") from error
    return bool(found)
