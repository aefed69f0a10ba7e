# SPDX-License-Identifier: Apache-2.0
"""Where the groceries of libero_object are taken: their shapes, and the way the hand turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.skills.motion import HAND_DOWN, turned_about_z
from rpent_box_libero.teaching.state import Pose, Rotation, SceneState, Vector3

WIDEST_M = 0.068
"""What fits between the open fingers (0.08) with room to come down."""
DEEPEST_M = 0.03
"""How far below a thing's top the point between the finger tips comes before the palm touches."""
LOWEST_M = 0.012
"""The finger tips reach 0.01 below the point between them."""
FINGER_M = 0.015
"""Half a finger's breadth, and some."""

PALM_HALF_SIZE = np.array([0.038, 0.106])
"""Of the palm as seen from above, across and along the way that the fingers move."""
PALM_ABOVE_M = 0.030
"""Its lower side, from the point between the finger tips."""

Triple = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Grocery:
    """A thing's shape, in its own frame, metres."""

    half_size: Triple
    stands_on: int
    """The axis that points up as scenes begin."""
    place: Triple
    """Where it is taken while it stands, from its origin."""
    widths: Triple
    """From side to side at `place`, along each axis."""
    is_round: bool = False
    """Whether it is a can about `stands_on`."""

    @property
    def is_flat(self) -> bool:
        """Whether it is the same all along."""
        return not any(self.place)

    def reach(self, pose: Pose) -> Vector3:
        """Return how far it extends from its origin along the world's axes."""
        extent: Vector3 = np.abs(pose.rotation) @ np.array(self.half_size)
        return extent

    def lowest(self, pose: Pose) -> float:
        """Return the height of its lowest point above the world's origin."""
        return float(pose.position[2] - self.reach(pose)[2])


_CAN = Grocery(
    half_size=(0.031, 0.038, 0.032),
    stands_on=1,
    place=(0.0, 0.014, -0.0035),
    widths=(0.062, 0.076, 0.062),
    is_round=True,
)
# Below the edge of its gable: finger tips that close over the edge do not come off it again.
_CARTON = Grocery(
    half_size=(0.027, 0.070, 0.026),
    stands_on=1,
    place=(0.0, 0.027, 0.0),
    widths=(0.053, 0.14, 0.051),
)

GROCERIES: Mapping[str, Grocery] = {
    "alphabet_soup": _CAN,
    "tomato_sauce": _CAN,
    "milk": _CARTON,
    "orange_juice": _CARTON,
    "cream_cheese": Grocery(
        half_size=(0.041, 0.021, 0.009),
        stands_on=2,
        place=(0.0, 0.0, 0.0),
        widths=(0.082, 0.042, 0.018),
    ),
    "butter": Grocery(
        half_size=(0.038, 0.020, 0.009),
        stands_on=2,
        place=(0.0, 0.0, 0.0),
        widths=(0.076, 0.040, 0.018),
    ),
    "chocolate_pudding": Grocery(
        half_size=(0.041, 0.023, 0.0135),
        stands_on=2,
        place=(0.0, 0.0, 0.0),
        widths=(0.082, 0.046, 0.027),
    ),
    "salad_dressing": Grocery(
        half_size=(0.026, 0.073, 0.018),
        stands_on=1,
        place=(0.0, 0.050, 0.0),
        widths=(0.036, 0.146, 0.035),
    ),
    "ketchup": Grocery(
        half_size=(0.028, 0.073, 0.018),
        stands_on=1,
        place=(0.0, 0.052, 0.0),
        widths=(0.034, 0.146, 0.037),
    ),
    "bbq_sauce": Grocery(
        half_size=(0.023, 0.015, 0.055),
        stands_on=2,
        place=(0.0, 0.0, 0.036),
        widths=(0.028, 0.030, 0.11),
    ),
}
"""Name, without its number, → shape."""


@dataclass(frozen=True)
class Grip:
    """How the hand takes a thing, world frame."""

    point: Vector3
    """Where the point between the finger tips goes."""
    rotation: Rotation
    """Of the hand: down, turned about the vertical by a quarter turn at most."""
    width: float
    """What the fingers close on."""
    slack: float
    """How far off `point` they may be along the thing (metres)."""


def grocery_of(name: str) -> Grocery:
    """Return the shape of a thing as scenes call it: `milk_1`."""
    return GROCERIES[name.rpartition("_")[0]]


def find_grip(state: SceneState, name: str) -> Grip:
    """Return the grip from above that fits the thing `name` as it stands or lies.

    Of several, the one that turns the hand least.
    """
    grocery, pose = grocery_of(name), state.thing(name)
    up = int(np.argmax(np.abs(pose.rotation[2])))
    point = _place(grocery, pose, up)
    if grocery.is_round:
        stands = up == grocery.stands_on
        turn = 0.0 if stands else _turn_to(pose.rotation[:, grocery.stands_on], lengthwise=True)
        return Grip(point, turned_about_z(HAND_DOWN, turn), min(grocery.widths), 0.0)
    sides = [axis for axis in range(3) if axis != up and grocery.widths[axis] <= WIDEST_M]
    side = min(sides, key=lambda axis: abs(_turn_to(pose.rotation[:, axis])))
    turn = _turn_to(pose.rotation[:, side])
    rotation = turned_about_z(HAND_DOWN, turn)
    slack = max(grocery.half_size[3 - up - side] - FINGER_M, 0.0) if grocery.is_flat else 0.0
    slide = _slide(state, name, point, rotation, slack)
    return Grip(point + slide, rotation, grocery.widths[side], slack)


def _place(grocery: Grocery, pose: Pose, up: int) -> Vector3:
    place = np.array(grocery.place)
    if up != grocery.stands_on:
        place[up] = np.sign(pose.rotation[2, up]) * max(grocery.half_size[up] - DEEPEST_M, 0.0)
    point: Vector3 = pose.position + pose.rotation @ place
    point[2] = max(point[2], LOWEST_M)
    return point


def _turn_to(axis: Vector3, *, lengthwise: bool = False) -> float:
    """Return the smallest turn (rad) of the hand after which it closes along `axis`, or, with
    `lengthwise`, has it along between the fingers."""
    turn = np.arctan2(axis[1], axis[0]) - (0.0 if lengthwise else np.pi / 2)
    return float((turn + np.pi / 2) % np.pi - np.pi / 2)


def _slide(
    state: SceneState, name: str, point: Vector3, rotation: Rotation, slack: float
) -> Vector3:
    """Return the way along a flat thing, at most `slack`, that takes the palm off a neighbour."""
    slide = 0.0
    for offset, half in _neighbours(state, name, point, rotation):
        if abs(offset[1]) < PALM_HALF_SIZE[1] + half[1]:
            overlap = PALM_HALF_SIZE[0] + half[0] - abs(offset[0])
            slide -= np.copysign(max(overlap, 0.0), offset[0])
    along: Vector3 = rotation[:, 0] * np.array([1.0, 1.0, 0.0])
    return along * float(np.clip(slide, -slack, slack))


def _neighbours(
    state: SceneState, name: str, point: Vector3, rotation: Rotation
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield centre and half size [2], in the hand's axes, of things as high as the palm."""
    for body, pose in state.bodies.items():
        other = body.removesuffix("_main")
        kind = other.rpartition("_")[0]
        if other in (name, body) or kind not in GROCERIES:
            continue
        reach = GROCERIES[kind].reach(pose)
        if pose.position[2] + reach[2] > point[2] + PALM_ABOVE_M:
            axes = rotation[:, :2].T
            yield axes @ (pose.position - point), np.abs(axes[:, :2]) @ reach[:2]
