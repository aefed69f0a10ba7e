# SPDX-License-Identifier: Apache-2.0
"""Whatever shows is never taken for hidden, and much of what is hidden is known to be."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from rpent_box_libero.view import Boxes, Mirror, View


def eyes(forward: tuple[float, ...] = (1, 0, 0), up: tuple[float, ...] = (0, 0, 1)) -> list:
    """The two cameras of a scene at the origin, a right angle wide and high."""
    one = SimpleNamespace(
        pos=(0, 0, 0),
        forward=forward,
        up=up,
        frustum_near=0.01,
        frustum_bottom=-0.01,
        frustum_top=0.01,
        frustum_center=0.0,
    )
    return [one, one]


def boxes(middles: object, halves: object, turns: object = None) -> Boxes:
    middles = np.atleast_2d(np.array(middles, dtype=np.float64))
    count = len(middles)
    turned = np.tile(np.eye(3), (count, 1, 1)) if turns is None else np.asarray(turns)
    halves = np.broadcast_to(np.asarray(halves, dtype=np.float64), (count, 3))
    return Boxes.around(middles, turned, np.zeros((count, 3)), halves)


def some_turns(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    turns, _ = np.linalg.qr(generator.normal(size=(count, 3, 3)))
    return turns * np.sign(np.linalg.det(turns))[:, None, None]


def table_mirror() -> Mirror:
    """One square metre that looks up, two metres ahead and one below."""
    corners = [(2 + x, y, -1.0) for x in (-0.5, 0.5) for y in (-0.5, 0.5)]
    return Mirror(np.array(corners), np.array([0.0, 0.0, 1.0]))


@pytest.mark.parametrize(
    ("middle", "shows"),
    [
        ((2, 0, 0), True),
        ((-2, 0, 0), False),
        ((2, 3.2, 0), False),
        ((2, -3.2, 0), False),
        ((2, 0, 3.2), False),
        ((2, 0, -3.2), False),
        ((2, 2.4, 0), True),  # its corner
        ((0, 0, 0), True),  # the eye is in it
    ],
)
def test_a_box_shows_where_the_eye_looks(middle: tuple[float, ...], shows: bool) -> None:
    view = View.of(eyes(), aspect=1.0)
    assert view.may_show(boxes(middle, 0.5)).tolist() == [shows]


def test_a_wide_picture_shows_more_to_the_sides() -> None:
    aside = boxes((2, 3, 0), 0.1)
    assert not View.of(eyes(), aspect=1.0).may_show(aside).any()
    assert View.of(eyes(), aspect=2.0).may_show(aside).all()


def test_every_box_that_holds_a_visible_point_may_show() -> None:
    generator = np.random.default_rng(0)
    count = 2000
    view = View.of(eyes(forward=(0.6, 0.0, -0.8), up=(0.8, 0.0, 0.6)), aspect=1.5)
    ahead = generator.uniform(0.02, 5, count)
    seen = (
        view.eye
        + ahead[:, None] * view.forward
        + (ahead * generator.uniform(*view.sides, count))[:, None] * view.right
        + (ahead * generator.uniform(*view.ends, count))[:, None] * view.up
    )
    turns, halves = some_turns(generator, count), generator.uniform(0.01, 1, (count, 3))
    inside = generator.uniform(-1, 1, (count, 3)) * halves
    middles = seen - np.einsum("nij,nj->ni", turns, inside)
    assert view.may_show(boxes(middles, halves, turns)).all()


def test_a_box_whose_size_is_not_known_always_shows() -> None:
    view = View.of(eyes(), aspect=1.0)
    assert view.may_show(boxes((-5, 0, 0), (np.inf, 1.0, 1.0))).all()


def test_a_mirror_out_of_view_shows_nothing() -> None:
    up = View.of(eyes(forward=(0, 0, 1), up=(-1, 0, 0)), aspect=1.0)
    assert up.through(table_mirror(), margin=0.0) is None


def test_a_mirror_seen_from_behind_shows_nothing() -> None:
    mirror = table_mirror()
    below = Mirror(mirror.corners + [0.0, 0.0, 2.0], mirror.normal)
    assert View.of(eyes(), aspect=1.0).through(below, margin=0.0) is None
    assert View.of(eyes(), aspect=1.0).through(mirror, margin=0.0) is not None


def test_a_mirror_that_reaches_behind_the_eye_may_be_anywhere() -> None:
    mirror = table_mirror()
    wide = Mirror(np.where(mirror.corners > 2.0, mirror.corners, -9.0), mirror.normal)
    view = View.of(eyes(), aspect=1.0)
    assert view.through(wide, margin=0.0) == view


def test_what_a_mirror_shows_may_be_out_of_view_itself() -> None:
    down = View.of(eyes(forward=(0.8, 0.0, -0.6), up=(0.6, 0.0, 0.8)), aspect=1.0)
    mirror = table_mirror()
    mirrored = down.through(mirror, margin=0.0)
    assert mirrored is not None
    lamp, cellar, aside = boxes((10, 0, 3), 0.1), boxes((2, 0, -2), 0.1), boxes((10, 8, 3), 0.1)
    assert not down.may_show(lamp).any()
    assert mirrored.may_show(mirror.images(lamp)).all()
    assert mirror.may_show(lamp).all()
    assert not mirror.may_show(cellar).any()
    assert not mirrored.may_show(mirror.images(aside)).any()


def test_every_box_that_holds_a_mirrored_point_may_show_there() -> None:
    generator = np.random.default_rng(1)
    count = 2000
    view, mirror = View.of(eyes(), aspect=1.0), table_mirror()
    mirrored = view.through(mirror, margin=0.0)
    assert mirrored is not None
    shown = mirror.corners[0] + generator.uniform(0, 1, (count, 2)) @ [[1, 0, 0], [0, 1, 0]]
    ray = shown - view.eye
    shown_in_view = view.may_show(boxes(shown, 1e-6))
    seen = shown + generator.uniform(0, 3, (count, 1)) * ray * [1, 1, -1]
    turns, halves = some_turns(generator, count), generator.uniform(0.01, 1, (count, 3))
    inside = generator.uniform(-1, 1, (count, 3)) * halves
    things = boxes(seen - np.einsum("nij,nj->ni", turns, inside), halves, turns)
    may = mirror.may_show(things) & mirrored.may_show(mirror.images(things))
    assert shown_in_view.sum() > count // 2
    assert may[shown_in_view].all()
