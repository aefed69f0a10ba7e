# SPDX-License-Identifier: Apache-2.0
"""Checks at a border: the worker checks what came in, the client what came back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.control import ActionSpace
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk, Actions, Observation
from rpent_box.errors import BadActions, BadObservation


def check_observation(observation: Observation, meta: ModelMeta) -> None:
    """Raise `BadObservation` unless every declared camera and proprio is there, well formed."""
    for role in meta.camera_roles:
        _check_image(role, observation.images.get(role))
    for name, length in meta.proprio_schema.items():
        _check_proprio(name, observation.proprio.get(name), length)


def check_actions(chunk: ActionChunk, meta: ModelMeta) -> None:
    """Raise `BadActions` unless actions are finite float32 [execute_steps, action_dim]."""
    wanted = (meta.execute_steps, meta.control.action_dim)
    actions = chunk.actions
    if actions.dtype != np.float32:
        raise BadActions(f"{meta.backend} returned {actions.dtype} actions; wanted float32")
    if actions.ndim != 2 or actions.shape[1] != wanted[1]:
        raise BadActions(
            f"{meta.backend} returned actions of shape {list(actions.shape)}; wanted "
            f"{list(wanted)} ({', '.join(meta.control.action_schema)})"
        )
    if actions.shape[0] != wanted[0]:
        raise BadActions(
            f"{meta.backend} returned {actions.shape[0]} steps; its meta promises {wanted[0]}"
        )
    if not np.isfinite(actions).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(actions))[0])
        raise BadActions(
            f"{meta.backend} returned {actions[row, column]} for "
            f"{meta.control.action_schema[column]} in step {row}; nothing was executed"
        )
    _check_extras(chunk, meta)


def check_commands(actions: Actions, space: ActionSpace, *, platform: str) -> None:
    """Raise `BadActions` unless `actions` is finite float32 [steps, action_dim], a row or more.

    For a platform, before anything moves.
    """
    names = tuple(field.name for field in space.fields)
    if actions.dtype != np.float32:
        raise BadActions(f"actions are {actions.dtype}; {platform} takes float32")
    if actions.ndim != 2 or actions.shape[1] != len(names) or not actions.shape[0]:
        raise BadActions(
            f"actions have shape {list(actions.shape)}; {platform} takes [steps, {len(names)}]: "
            f"{', '.join(names)}"
        )
    if not np.isfinite(actions).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(actions))[0])
        raise BadActions(
            f"{names[column]} is {actions[row, column]} in step {row}; nothing was executed"
        )


def _check_extras(chunk: ActionChunk, meta: ModelMeta) -> None:
    """Raise `BadActions` when the optional outputs are malformed."""
    if not _is_finite(0.0 if chunk.value is None else chunk.value):
        raise BadActions(f"{meta.backend} returned the value {chunk.value}")
    for stage, seconds in chunk.timings_s.items():
        if not _is_finite(seconds) or seconds < 0:
            raise BadActions(f"{meta.backend} says that {stage} took {seconds} s")
    for role, image in (chunk.future_observation or {}).items():
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or not _is_rgb(image):
            raise BadActions(
                f"{meta.backend} returned a future {role} of {_describe(image)}; "
                "wanted uint8 RGB [height, width, 3]"
            )


def _is_finite(number: object) -> bool:
    return isinstance(number, (float, int, np.number)) and bool(np.isfinite(number))


def _check_image(role: str, image: object) -> None:
    if image is None:
        raise BadObservation(f"camera {role} is missing from the observation")
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        raise BadObservation(f"camera {role} must be a uint8 array, got {_describe(image)}")
    if not _is_rgb(image):
        raise BadObservation(
            f"camera {role} must be RGB [height, width, 3], got shape {list(image.shape)}"
        )
    if not image.flags.c_contiguous:
        raise BadObservation(f"camera {role} is not contiguous: it was flipped or cut as a view")


def _is_rgb(image: NDArray[np.uint8]) -> bool:
    return image.ndim == 3 and image.shape[2] == 3 and image.size > 0


def _check_proprio(name: str, vector: object, length: int) -> None:
    if vector is None:
        raise BadObservation(f"proprio {name} is missing from the observation")
    if not isinstance(vector, np.ndarray) or vector.dtype != np.float32:
        raise BadObservation(f"proprio {name} must be a float32 array, got {_describe(vector)}")
    if vector.shape != (length,):
        raise BadObservation(
            f"proprio {name} has shape {list(vector.shape)}; the model wants [{length}]"
        )
    if not np.isfinite(vector).all():
        raise BadObservation(f"proprio {name} is not finite: {vector.tolist()}")


def _describe(value: object) -> str:
    return (
        f"{value.dtype} {list(value.shape)}"
        if isinstance(value, np.ndarray)
        else type(value).__name__
    )
