# SPDX-License-Identifier: Apache-2.0
"""What an image or an environment is made from: files of the checkout that this package runs in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

import rpent_box
from rpent_box.errors import LaunchError

Kind: TypeAlias = Literal["backend", "platform"]

_SHARED = ("pyproject.toml", "images/base/tools.lock", "images/base/with-host.sh")
_SKIPPED = {"__pycache__", "tests"}


class Recipe(Struct, frozen=True, kw_only=True):
    """The files behind one backend or platform."""

    kind: Kind
    name: str
    checkout: Path
    dockerfile: Path
    lock: Path
    """Every package with its version and hashes."""
    project: Path | None
    """What is installed besides rpent_box itself: a platform's plugin."""
    packages: tuple[str, ...]
    """Debian packages that its process needs."""

    @property
    def tools_lock(self) -> Path:
        """The locked tools that images and packages are built with."""
        return self.checkout / "images" / "base" / "tools.lock"

    def inputs(self) -> str:
        """Return a digest of everything that ends up in the image."""
        digest = hashlib.sha256()
        for path in sorted(self._files()):
            data = path.read_bytes()
            head = f"{path.relative_to(self.checkout)}\0{len(data)}\0"
            digest.update(head.encode() + data)
        return digest.hexdigest()[:16]

    def _files(self) -> Iterator[Path]:
        yield self.dockerfile
        yield from (self.checkout / name for name in _SHARED)
        yield from _sources(self.lock.parent)
        yield from _sources(self.checkout / "rpent_box")


def find_checkout() -> Path | None:
    """Return the repository that this package runs from; None when it is an installed wheel."""
    root = Path(rpent_box.__file__).resolve().parent.parent
    return root if (root / "Dockerfile.sim").is_file() else None


def find_recipe(kind: Kind, name: str, checkout: Path | None = None) -> Recipe:
    """Return how `name` is made. Raises `LaunchError` where there is no recipe for it."""
    checkout = checkout or find_checkout()
    if checkout is None:
        raise LaunchError(
            f"what {name} is built from is not part of the installed package",
            hint="Run rpent-box from a checkout of its repository, or give a Python that has "
            "everything: --launcher process --python PATH",
        )
    folder = checkout / ("images" if kind == "backend" else "platforms") / name
    lock = folder / "requirements.lock"
    if not lock.is_file():
        raise LaunchError(
            f"there is no recipe for the {kind} {name}: {lock} is missing",
            hint="Its author builds it. Where it is installed already: "
            f"--launcher process {'--python' if kind == 'backend' else '--platform-python'} PATH. "
            f"Recipes here: {', '.join(recipe_names(checkout, kind)) or 'none'}",
        )
    return Recipe(
        kind=kind,
        name=name,
        checkout=checkout,
        dockerfile=folder / "Dockerfile" if kind == "backend" else checkout / "Dockerfile.sim",
        lock=lock,
        project=None if kind == "backend" else folder,
        packages=_packages(folder / "packages.txt"),
    )


def recipe_names(checkout: Path, kind: Kind) -> list[str]:
    """Return the backends or platforms that `checkout` has a recipe for."""
    folder = checkout / ("images" if kind == "backend" else "platforms")
    return sorted(lock.parent.name for lock in folder.glob("*/requirements.lock"))


def _packages(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return ()
    lines = (line.strip() for line in path.read_text().splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def _sources(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not _SKIPPED & set(path.relative_to(folder).parts):
            yield path
