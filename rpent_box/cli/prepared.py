# SPDX-License-Identifier: Apache-2.0
"""How programs are prepared on this machine: which images and environments are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rpent_box.cli.catalogue import Built, Look, Prepared
from rpent_box.errors import EngineMissing, LaunchError
from rpent_box.launch.engine_socket import check_engine, engine_socket
from rpent_box.launch.environments import find_environment
from rpent_box.launch.images import image_state
from rpent_box.launch.recipe import Kind, Variant, find_checkout, find_recipe, platform_target
from rpent_box.plugins import find_backend, find_platform

LookAtImage: TypeAlias = Callable[[Kind, str, Variant], Built]


def look_once() -> Look:
    """Return a function that knows how each program is prepared; the engine is asked for once."""
    image = _image_of_engine()

    def look(kind: Kind, name: str) -> Prepared:
        if kind == "platform":
            name = platform_target(find_platform(name)).name
        if _has_no_recipe(kind, name):
            return Prepared(image="no recipe", environment="no recipe")
        built = find_environment(kind, name) is not None
        return Prepared(
            image=image(kind, name, ""),
            environment="ready" if built else "missing",
            variants={variant: image(kind, name, variant) for variant in _variants(kind, name)},
        )

    return look


def _image_of_engine() -> LookAtImage:
    try:
        check_engine(engine_socket())
        # Late: the Docker SDK takes longer to import than to find out that there is no engine.
        from rpent_box.launch.engine import Engine

        engine = Engine.connect()
    except LaunchError:
        return lambda kind, name, variant: "no engine"

    def image(kind: Kind, name: str, variant: Variant) -> Built:
        try:
            return image_state(engine, kind, name, variant)
        except EngineMissing:
            return "no engine"

    return image


def _variants(kind: Kind, name: str) -> tuple[Variant, ...]:
    return find_backend(name).variants if kind == "backend" else ()


def _has_no_recipe(kind: Kind, name: str) -> bool:
    """Say whether `name` comes from elsewhere: its author builds it."""
    if find_checkout() is None:
        return True
    try:
        find_recipe(kind, name)
    except LaunchError:
        return True
    return False
