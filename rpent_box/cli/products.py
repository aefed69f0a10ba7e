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
from rpent_box.launch.recipe import (
    Kind,
    Target,
    Variant,
    find_checkout,
    find_recipe,
    platform_target,
    recipe_names,
)
from rpent_box.plugins import backend_names, find_backend, find_platform, platform_names

Say: TypeAlias = Callable[[str], None]


class Product(Struct, frozen=True, kw_only=True):
    """One thing that is built now."""

    kind: Kind
    name: str
    variant: Variant = ""
    image: str | None = None
    python: str | None = None
    """The interpreter of its environment."""


def find_targets(names: Sequence[str], *, everything: bool, variant: Variant = "") -> list[Target]:
    """Return the backends, platforms and services that are meant, each once.

    Raises `UnknownName` for a name that is none of them, `UsageError` when nothing is named,
    `LaunchError` for something that has no recipe here, or not in this variant.
    """
    if everything and variant:
        raise UsageError(
            "--all builds the default variants, and --variant another",
            hint=f"Name what shall be built: rpent-box build NAME --variant {variant}",
        )
    if everything:
        return _all_targets()
    if not names:
        raise UsageError("what shall be built?", hint="Name it, or: rpent-box build --all")
    targets = [target._replace(variant=variant) for name in names for target in _called(name)]
    for target in targets:
        find_recipe(*target)
    return list(dict.fromkeys(targets))


def make_products(
    targets: Sequence[Target],
    launcher: Literal["docker", "process"],
    *,
    base: str | None,
    say: Say,
    environ: Mapping[str, str],
    golden: bool = True,
) -> list[Product]:
    """Build what `launcher` needs for `targets`; without `golden` simulators are not compared.

    Raises `LaunchError`, and `UsageError` for what only images have: a base, or a service.
    """
    if launcher == "docker":
        build_images(targets, say=say, environ=environ, base=base, golden=golden)
        return [Product(**target._asdict(), image=image_name(*target)) for target in targets]
    if base is not None:
        raise UsageError("--base is for images, and this builds environments")
    return [
        Product(
            **target._asdict(),
            python=str(build_environment(*target, say=say, environ=environ)),
        )
        for target in _with_environments(targets, say)
    ]


def _with_environments(targets: Sequence[Target], say: Say) -> list[Target]:
    """Leave out services: they run by themselves, and never beside a worker's packages."""
    services = [target.name for target in targets if target.kind == "service"]
    if services and len(services) == len(targets):
        raise UsageError(
            f"{', '.join(services)} has an image and no environment: it is a service, which no "
            "launcher starts",
            hint=f"Build the image: rpent-box build {services[0]} --launcher docker. Without "
            f"containers: images/{services[0]}/README.md",
        )
    for name in services:
        say(f"{name} is left out: a service has an image and no environment")
    return [target for target in targets if target.kind != "service"]


def _all_targets() -> list[Target]:
    checkout = find_checkout()
    if checkout is None:
        raise UsageError(
            "there is nothing to build from: rpent-box was installed without its repository",
            hint="Run it from a checkout.",
        )
    backends = backend_names()
    found = [
        Target("backend" if name in backends else "service", name)
        for name in recipe_names(checkout, "backend")
    ]
    return found + [Target("platform", name) for name in recipe_names(checkout, "platform")]


def _called(name: str) -> list[Target]:
    targets: list[Target] = []
    with suppress(UnknownName):
        targets.append(Target("backend", find_backend(name).name))
    with suppress(UnknownName):
        targets.append(platform_target(find_platform(name)))
    checkout = find_checkout()
    if not targets and checkout is not None and name in recipe_names(checkout, "service"):
        targets.append(Target("service", name))
    if not targets:
        raise UnknownName(
            f"there is no backend and no platform called {name}",
            hint=f"Installed: {', '.join([*backend_names(), *platform_names()]) or 'none'}. "
            "See: rpent-box list",
        )
    return targets
