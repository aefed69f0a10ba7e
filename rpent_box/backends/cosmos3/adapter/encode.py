# SPDX-License-Identifier: Apache-2.0
"""From a LIBERO observation to what the model is told and shown."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from rpent_box.backends.cosmos3.adapter.compose import compose
from rpent_box.backends.cosmos3.adapter.recipe import Recipe
from rpent_box.contracts.observation import Image, Observation

CAMERA_ROLES = ("primary", "wrist")
_VIEWS = (
    " This video contains concatenated views from multiple camera perspectives. The left half "
    "shows the third-person view; the right half shows the wrist-mounted camera."
)
"""The sentences of the training recipe, word by word: to the model they are part of the task."""


class ModelInput(Struct, frozen=True, kw_only=True):
    """One environment's part of a request."""

    prompt: str
    image: Image
    """uint8 RGB, the model's frame."""


def encode_libero(observation: Observation, recipe: Recipe) -> ModelInput:
    """Return what the model is told and shown. Proprio is not: it sees the arm."""
    # The training frames are LIBERO's raw ones turned by 180 degrees. The platform has turned rows
    # already, so that frames are upright; columns remain.
    views = [observation.images[role][:, ::-1] for role in CAMERA_ROLES]
    return ModelInput(
        prompt=describe_views(observation.instruction, len(views)),
        image=compose(views, recipe.width_height),
    )


def describe_views(instruction: str, cameras: int) -> str:
    """Return the prompt: the instruction as a sentence, then how the views lie."""
    if cameras < 2:
        return instruction
    sentence = instruction.rstrip()
    return (sentence if sentence.endswith(".") else f"{sentence}.") + _VIEWS


def is_whole(observation: Observation) -> bool:
    """Tell whether every view is in the picture: views of different sizes are not."""
    return len({observation.images[role].shape for role in CAMERA_ROLES}) == 1


def png(image: Image) -> bytes:
    """Return `image` as PNG, which loses nothing."""
    import io

    from PIL import Image as Pillow

    with io.BytesIO() as file:
        Pillow.fromarray(np.ascontiguousarray(image)).save(file, format="PNG")
        return file.getvalue()
