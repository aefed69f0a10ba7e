# SPDX-License-Identifier: Apache-2.0
"""The images of backends and platforms: what they are called, and whether they are built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from rpent_box.launch.recipe import Kind, Variant, find_checkout, find_recipe
from rpent_box.version import __version__

if TYPE_CHECKING:
    from rpent_box.launch.engine import Engine

ImageState: TypeAlias = Literal["missing", "stale", "ready"]
"""`stale`: built, but the checkout has changed since."""

INPUTS_LABEL = "rpent-box.inputs"
"""`Recipe.inputs()` of what the image was made from."""


def image_name(kind: Kind, name: str, variant: Variant = "") -> str:
    """Return the image of a backend or platform, e.g. `rpent-box/mini-wam:0.1.0`.

    A variant is part of the tag: `rpent-box/NAME:0.1.0-cpu`.
    """
    repository = f"sim-{name}" if kind == "platform" else name
    return f"rpent-box/{repository}:{__version__}{variant and f'-{variant}'}"


def image_state(engine: Engine, kind: Kind, name: str, variant: Variant = "") -> ImageState:
    """Say whether the image is there and made from this checkout as it is.

    An installed wheel has no checkout to compare with: then an image that is there is `ready`.
    Raises `EngineMissing`.
    """
    labels = _labels(engine, image_name(kind, name, variant))
    if labels is None:
        return "missing"
    if find_checkout() is None:
        return "ready"
    inputs = find_recipe(kind, name, variant).inputs()
    return "ready" if labels.get(INPUTS_LABEL) == inputs else "stale"


def image_id(engine: Engine, image: str) -> str:
    """Return the engine's id of `image`, `sha256:…`: what really ran. Raises `LaunchError`."""
    from rpent_box.launch.engine import translated

    with translated(f"looking for the image {image}"):
        return str(engine.client.images.get(image).id)


def _labels(engine: Engine, image: str) -> dict[str, str] | None:
    # Late: an image's name is wanted far more often than the engine is asked.
    from docker.errors import ImageNotFound

    from rpent_box.launch.engine import translated

    with translated(f"looking for the image {image}"):
        try:
            found = engine.client.images.get(image)
        except ImageNotFound:
            return None
    return dict(found.labels)
