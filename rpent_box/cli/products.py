# SPDX-License-Identifier: Apache-2.0
"""What `build` and `serve --build` make: images for containers, environments for processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

from msgspec import Struct

from rpent_box.errors import UnknownName, UsageError
from rpent_box.launch.build import build_images
from rpent_box.launch.environments import build_environment
from rpent_box.launch.images import image_name
from rpent_box.launch.recipe import Kind, find_checkout, find_recipe, recipe_names
from rpent_box.plugins import backend_names, find_backend, find_platform, platform_names

Say: TypeAlias = Callable[[str], None]
Target: TypeAlias = tuple[Kind, str]


class Product(Struct, frozen=True, kw_only=True):
    """One thing that is built now."""

    kind: Kind
    name: str
    image: str | None = None
    python: str | None = None
    """The interpreter of its environment."""


def find_targets(names: Sequence[str], *, everything: bool) -> list[Target]:
    """Return the backends and platforms that are meant, each once.

    Raises `UnknownName` for a name that is neither, `UsageError` when nothing is named,
    `LaunchError` for something that has no recipe here.
    """
    if everything:
        return _all_targets()
    if not names:
        raise UsageError("what shall be built?", hint="Name it, or: rpent-box build --all")
    targets = [target for name in names for target in _called(name)]
    for kind, name in targets:
        find_recipe(kind, name)
    return list(dict.fromkeys(targets))


def make_products(
    targets: Sequence[Target],
    launcher: Literal["docker", "process"],
    *,
    base: str | None,
    say: Say,
    environ: Mapping[str, str],
) -> list[Product]:
    """Build what `launcher` needs for `targets`. Raises `LaunchError`."""
    if launcher == "docker":
        build_images(targets, say=say, environ=environ, base=base)
        return [
            Product(kind=kind, name=name, image=image_name(kind, name)) for kind, name in targets
        ]
    if base is not None:
        raise UsageError("--base is for images, and this builds environments")
    return [
        Product(
            kind=kind,
            name=name,
            python=str(build_environment(kind, name, say=say, environ=environ)),
        )
        for kind, name in targets
    ]


def _all_targets() -> list[Target]:
    checkout = find_checkout()
    if checkout is None:
        raise UsageError(
            "there is nothing to build from: rpent-box was installed without its repository",
            hint="Run it from a checkout.",
        )
    kinds: tuple[Kind, ...] = ("backend", "platform")
    return [(kind, name) for kind in kinds for name in recipe_names(checkout, kind)]


def _called(name: str) -> list[Target]:
    targets: list[Target] = []
    with suppress(UnknownName):
        targets.append(("backend", find_backend(name).name))
    with suppress(UnknownName):
        targets.append(("platform", find_platform(name).name))
    if not targets:
        raise UnknownName(
            f"there is no backend and no platform called {name}",
            hint=f"Installed: {', '.join([*backend_names(), *platform_names()]) or 'none'}. "
            "See: rpent-box list",
        )
    return targets
