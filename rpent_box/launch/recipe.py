# SPDX-License-Identifier: Apache-2.0
"""What an image or an environment is made from: files of the checkout that this package runs in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

import rpent_box
from rpent_box.errors import LaunchError
from rpent_box.sim.platform import PlatformPlugin

Kind: TypeAlias = Literal["backend", "platform", "service"]
"""`service`: what a backend speaks to, in an image of its own, e.g. an inference server."""
Variant: TypeAlias = Literal["", "cpu"]
"""Empty: the default, with a GPU where the model needs one."""

_SHARED = ("pyproject.toml", "images/base/tools.lock", "images/base/with-host.sh")
_SKIPPED = {"__pycache__", "tests"}
_GET_SOURCE = "images/base/get_source.py"
_INSTALL_PACKAGES = "images/base/install_packages.py"
_OF_SIMULATORS = (_INSTALL_PACKAGES, "images/base/golden.sh", "images/base/start.sh")


class Target(NamedTuple):
    """One thing to build or to find."""

    kind: Kind
    name: str
    variant: Variant = ""

    @property
    def command(self) -> str:
        """What builds it, for people."""
        return build_command(self.name, self.variant)


def platform_target(plugin: PlatformPlugin) -> Target:
    """Return what `plugin`'s image and environment are made from; platforms may share a recipe."""
    return Target("platform", plugin.recipe or plugin.name)


class Recipe(Struct, frozen=True, kw_only=True):
    """The files behind one backend or platform."""

    kind: Kind
    name: str
    variant: Variant = ""
    checkout: Path
    dockerfile: Path
    lock: Path
    """Every package with its version and hashes."""
    project: Path | None
    """What is installed besides rpent_box itself: a platform's plugin."""
    packages: tuple[str, ...]
    """Debian packages that its process needs, each with its release if not the system's own."""
    sources: tuple[str, ...] = ()
    """Source trees that are in no package index, as `sources_lock` names them."""

    @property
    def tools_lock(self) -> Path:
        """The locked tools that images and packages are built with."""
        return self.checkout / "images" / "base" / "tools.lock"

    @property
    def sources_lock(self) -> Path:
        """The pinned revisions of its sources."""
        return self.lock.parent / "sources.lock"

    @property
    def get_source(self) -> Path:
        """The script that fetches and verifies a source."""
        return self.checkout / _GET_SOURCE

    @property
    def install_packages(self) -> Path:
        """The script that installs its `packages`."""
        return self.checkout / _INSTALL_PACKAGES

    @property
    def is_for_one_python(self) -> bool:
        """Whether its lock was resolved for a single version of Python."""
        return self.lock.with_suffix(".in").is_file()

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
        yield from (path for path in _sources(self.lock.parent) if self._uses(path))
        if self.sources:
            yield self.get_source
        if self.kind == "platform":
            yield from (self.checkout / name for name in _OF_SIMULATORS)
        yield from _sources(self.checkout / "rpent_box")

    def _uses(self, path: Path) -> bool:
        if path.parent == self.lock.parent and path.name.startswith("requirements"):
            return path.stem == self.lock.stem
        return path.name != "README.md" or self.kind == "platform"


def build_command(name: str, variant: Variant = "") -> str:
    """Return what builds the image of `name`, for people."""
    return f"rpent-box build {name}" + (f" --variant {variant}" if variant else "")


def run_command(plugin: PlatformPlugin) -> str:
    """Return what plays on `plugin`, for people; its `--help` lists the platform's own options."""
    return f"rpent-box run --platform {plugin.name}"


def find_checkout() -> Path | None:
    """Return the repository that this package runs from; None when it is an installed wheel."""
    root = Path(rpent_box.__file__).resolve().parent.parent
    return root if (root / "Dockerfile.sim").is_file() else None


def find_recipe(
    kind: Kind, name: str, variant: Variant = "", *, checkout: Path | None = None
) -> Recipe:
    """Return how `name` is made. Raises `LaunchError` where there is no recipe for it."""
    checkout = checkout or find_checkout()
    if checkout is None:
        raise LaunchError(
            f"what {name} is built from is not part of the installed package",
            hint="Run rpent-box from a checkout of its repository, or give a Python that has "
            "everything: --launcher process --python PATH",
        )
    folder = _folder(checkout, kind) / name
    lock = folder / f"requirements{variant and f'-{variant}'}.lock"
    if variant and not lock.is_file() and (folder / "requirements.lock").is_file():
        raise LaunchError(
            f"there is no {variant} variant of {name}: {lock} is missing",
            hint=f"There is: {build_command(name)}",
        )
    if not lock.is_file():
        raise LaunchError(
            f"there is no recipe for the {kind} {name}: {lock} is missing",
            hint="Its author builds it. Where it is installed already: "
            f"--launcher process {'--platform-python' if kind == 'platform' else '--python'} PATH. "
            f"Recipes here: {', '.join(recipe_names(checkout, kind)) or 'none'}",
        )
    return Recipe(
        kind=kind,
        name=name,
        variant=variant,
        checkout=checkout,
        dockerfile=checkout / "Dockerfile.sim" if kind == "platform" else folder / "Dockerfile",
        lock=lock,
        project=folder if kind == "platform" else None,
        packages=tuple(_lines(folder / "packages.txt")),
        sources=tuple(line.split()[0] for line in _lines(folder / "sources.lock")),
    )


def recipe_names(checkout: Path, kind: Kind) -> list[str]:
    """Return what `checkout` has a recipe for: platforms, or the folders of images."""
    folder = _folder(checkout, kind)
    return sorted(lock.parent.name for lock in folder.glob("*/requirements.lock"))


def _folder(checkout: Path, kind: Kind) -> Path:
    return checkout / ("platforms" if kind == "platform" else "images")


def _lines(path: Path) -> Iterator[str]:
    """Return the lines of `path` that say something; none where there is no such file."""
    if path.is_file():
        lines = (line.strip() for line in path.read_text().splitlines())
        yield from (line for line in lines if line and not line.startswith("#"))


def _sources(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not _SKIPPED & set(path.relative_to(folder).parts):
            yield path
